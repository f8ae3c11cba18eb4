"""Outcomes of rewrites by a model that does not report the words it changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.outcomes import Outcomes
from epsilometer.text.words import words


def outcomes(
    texts: Sequence[str], rewrites: Sequence[str], status: Sequence[str], questions: NDArray[np.int64]
) -> Outcomes:
    """Return the outcomes of n rewrites. A word counts as unchanged if an alignment with fewest edits matches it.

    questions: int64 [n], number of questions to auxiliaries. No victim is asked.
    """
    from rapidfuzz.distance import Indel

    lengths, unchanged = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    for i, (text, rewrite) in enumerate(zip(texts, rewrites, strict=True)):
        before = words(text)
        blocks = Indel.opcodes(before, words(rewrite))
        lengths[i] = len(before)
        unchanged[i] = sum(block.src_end - block.src_start for block in blocks if block.tag == "equal")
    return Outcomes(
        status,
        changed=lengths - unchanged,
        words=lengths,
        asked=questions,
        asked_victim=np.zeros(len(texts), np.int64),
    )
