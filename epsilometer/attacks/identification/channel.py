"""The channel attack: guesses the candidate that an encoder-decoder is most likely to reconstruct from the rewrite.

The mechanism is treated as a noisy channel, and a model that was trained to restore and paraphrase texts inverts the
channel. Given the rewrite y as input, the model assigns a probability to the candidate x = x_1 ... x_m, including the
end of the sequence (teacher forcing). The score is

    score(x) = sum over t of ln P(x_t | y, x_<t) - ln P(x_t | empty input, x_<t)

The first term is the log-probability of the candidate given the rewrite. It falls with every word, so alone it would
favour short and common candidates. The second term subtracts the log-probability without a rewrite. So the score is the
pointwise mutual information of candidate and rewrite. By Bayes' rule the score equals ln P(y | x), up to a term that is
the same for all candidates. No other correction for length is needed. Tokens that the model never outputs are left out
of both terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.models.embedded import seq2seq

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq

_PAIRS = 1 << 14  # pairs of a rewrite and a candidate scored at a time


@component
class ChannelAttack(ByScore):
    """The channel attack. model: an encoder-decoder by id, folder or pin; None: the embedded one."""

    large: ClassVar[bool] = True

    model: str | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _reader(self) -> Seq2Seq:
        from epsilometer.models.seq2seq import Seq2Seq

        return Seq2Seq(self.model or seq2seq(), self.precision)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. Each distinct rewrite is read once, and each distinct pair is scored once."""
        used, slots = np.unique(candidates, return_inverse=True)
        slots = slots.reshape(candidates.shape)
        sources = [contexts[0].texts[i] for i in used]
        seen = {text: i for i, text in enumerate(dict.fromkeys(t for output in rewrites for t in output.texts))}
        rows = np.array([[seen[text] for text in output.texts] for output in rewrites])
        # Pairs of the same rewrite are adjacent, so that the rewrite is read once.
        pairs, place = np.unique(rows[:, :, None] * len(sources) + slots, return_inverse=True)
        alone = self._log_probabilities([""], sources, np.zeros(len(sources), int), np.arange(len(sources)))
        scores = self._log_probabilities(list(seen), sources, pairs // len(sources), pairs % len(sources))
        scores = (scores - alone[pairs % len(sources)])[place.reshape(len(rewrites), *candidates.shape)]
        return list(scores)

    def _log_probabilities(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        source: NDArray[np.integer],
        target: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Return ln P(targets[target] | sources[source]), [n], including the end token. `source` must ascend."""
        from epsilometer.models.generation import forced, places
        from epsilometer.runtime.progress import track

        model = self._reader
        prompts = model.cut(model.tokens(sources))
        written = [[*model.plain(text), model.end][: model.longest(0)] for text in targets]
        total = np.zeros(len(source))
        parts = [slice(start, start + _PAIRS) for start in range(0, len(source), _PAIRS)]
        for part in track(parts, len(parts), "read rewrites"):
            sequences = [written[i] for i in target[part]]
            for rows, logits in forced(model, prompts, source[part], sequences):
                log_p = logits.log_softmax(-1).cpu().numpy()
                for row, values in zip(rows, log_p, strict=True):
                    at, spoken = places(model, sequences[row])
                    total[part.start + row] = values[np.arange(len(at)), at][spoken].sum(dtype=float)
        return total
