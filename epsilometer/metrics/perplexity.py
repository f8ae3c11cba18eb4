"""Perplexity of the rewrite under a language model: e to the mean negative log-probability of its word pieces.

Perplexity measures how fluent the rewrite is under the model. It does not depend on the original, so fluent text with
another meaning has a low perplexity. The mechanism `identity` gives the originals' perplexity, for comparison. The
default model is the embedded paraphraser. A tenth of its training examples were single lines without a source text, and
the rewrite is read as such a line. The paraphraser is small and reads text in lower case. Its perplexities are lower
for sentences than for shuffled words, but differ from those of GPT-2. Compare only perplexities of the same model,
since models divide text into different pieces.

Pieces that the model never generates (unknown characters, special tokens) are left out. Texts longer than the model's
window are truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import EMBEDDED, component

if TYPE_CHECKING:
    from epsilometer.models.causal_lm import CausalLM

PARAPHRASER = EMBEDDED / "minilm-paraphraser"


@component
class Perplexity:
    """The perplexity of a rewrite.

    model: a decoder-only language model by id or folder; by default the embedded one.
    """

    model: str = PARAPHRASER.name
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @property
    def english(self) -> bool:
        """True if the model is the embedded one."""
        return self.model == PARAPHRASER.name

    @cached_property
    def _reader(self) -> CausalLM:
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(PARAPHRASER if self.model == PARAPHRASER.name else self.model, self.precision)

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] perplexities, at least 1; NaN for a rewrite without a piece that the model can generate."""
        from epsilometer.models.generation import forced, places

        model = self._reader
        opening = model.tokens([""])[0] or [model.end]
        pieces = [model.plain(text)[: model.longest(len(opening))] for text in rewrites]
        full = [i for i, ids in enumerate(pieces) if len(ids)]
        perplexities = np.full(len(rewrites), np.nan)
        for rows, logits in forced(model, [opening], np.zeros(len(full), int), [pieces[i] for i in full]):
            log_p = logits.double().log_softmax(-1).cpu().numpy()
            for row, values in zip(rows, log_p, strict=True):
                at, spoken = places(model, pieces[full[row]])
                if spoken.any():
                    perplexities[full[row]] = np.exp(-values[np.arange(len(at)), at][spoken].mean())
        return perplexities
