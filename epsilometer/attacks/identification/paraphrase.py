"""The paraphrase attack: guesses the candidate that gives the rewrite the largest likelihood in a language model.

The score of a candidate x is ln p(rewrite, end of sequence | prompt to paraphrase x). The prompt is DP-Prompt's, in the
model's chat template if the model has one. The embedded paraphraser gets x with a marker instead. The attack `judge`
asks for the label of the source, which small models name no better than at random. This attack asks for no label.
Between two unrelated texts, SmolLM2-135M-Instruct finds the source by its label in half of the trials, and by
likelihood in nearly all trials.

A rewrite that does not fit into the model's window after the longest prompt is truncated, equally for all candidates.
Candidates are compared for the same rewrite, so the score needs no prior of the rewrite. The likelihood is that of a
paraphraser, not of the mechanism, so scores give no posteriors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites
from epsilometer.models.embedded import paraphraser
from epsilometer.models.provider import DOCUMENT, MARKER

if TYPE_CHECKING:
    from epsilometer.models.causal_lm import CausalLM


@component
class ParaphraseAttack(ByScore):
    """The paraphrase attack.

    model: a causal language model by id, folder or pin; None: the embedded paraphraser. precision: the weights' number
    type.
    """

    large: ClassVar[bool] = True

    model: str | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _network(self) -> CausalLM:
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(self.model or paraphraser(), self.precision)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. Equal pairs of a candidate and a rewrite are scored once."""
        pairs: dict[tuple[int, str], int] = {}
        places = [
            [[pairs.setdefault((int(number), text), len(pairs)) for number in row] for text, row in rows]
            for rows in (zip(output.texts, candidates, strict=True) for output in rewrites)
        ]
        scores = self._scores([*pairs], contexts[0].texts)
        return [scores[np.array(each, np.int64).reshape(candidates.shape)] for each in places]

    def _scores(self, pairs: Sequence[tuple[int, str]], texts: Sequence[str]) -> NDArray[np.float64]:
        """Return ln p(rewrite | prompt) of each pair (index of a text, rewrite)."""
        from epsilometer.models.generation import Softmax, log_likelihoods

        model, numbers = self._network, {number: i for i, number in enumerate(sorted({number for number, _ in pairs}))}
        if self.model is None:
            prompts = model.tokens([MARKER.format(texts[number]) for number in numbers])
        else:
            written = [DOCUMENT.format(texts[number]) for number in numbers]
            prompts = model.chat_tokens(written) if model.chats else model.tokens(written)
        most = min(map(model.longest, map(len, prompts)), default=0)
        if most < 1:
            raise UserError(
                f"the longest candidate leaves no room for a rewrite in the {model.window} tokens that "
                f"{self.model or 'the embedded paraphraser'} reads; shorten the texts, or give a model with a larger "
                "window",
                "EPS-A209",
            )
        tokens = {text: [*model.plain(text), model.end][:most] for _, text in pairs}
        source = np.array([numbers[number] for number, _ in pairs], np.int64)
        sequences = [tokens[text] for _, text in pairs]
        return log_likelihoods(model, Softmax(), prompts, source, sequences=sequences, epsilons=np.ones(len(pairs)))
