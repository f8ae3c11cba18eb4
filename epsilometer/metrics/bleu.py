"""BLEU (Papineni et al., ACL 2002) by sacrebleu, from 0 to 1, over lower-cased words without punctuation.

`Bleu` scores each text by sacrebleu's sentence BLEU, with effective order (n-grams longer than the text do not count)
and exponential smoothing. `corpus` scores a whole corpus by corpus BLEU. Corpus BLEU sums the n-gram counts of all
texts before it divides, so it is not the mean of the texts' scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words, write


@component
class Bleu:
    """BLEU with the original as the reference: 1 if neither text has words, 0 if only one text has words."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] scores, 0 to 1."""
        from sacrebleu.metrics import BLEU

        bleu = BLEU(tokenize="none", effective_order=True)
        pairs = [(write(words(a)), write(words(b))) for a, b in zip(originals, rewrites, strict=True)]
        return np.array(
            [bleu.sentence_score(b, [a]).score / 100 if a or b else 1.0 for a, b in pairs], np.float64
        ).clip(0, 1)  # equal texts score 1 + 2e-16


def corpus(originals: Sequence[str], rewrites: Sequence[str]) -> float:
    """Return corpus BLEU of the rewrites, 0 to 1."""
    from sacrebleu.metrics import BLEU

    left, right = ([write(words(text)) for text in side] for side in (originals, rewrites))
    return min(1.0, float(BLEU(tokenize="none").corpus_score(right, [left]).score) / 100)
