"""Outcomes of rewrites that a model wrote as a whole, without naming the words that it changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.outcomes import Outcomes
from epsilometer.text.words import words


def outcomes(
    texts: Sequence[str], rewrites: Sequence[str], status: Sequence[str], questions: NDArray[np.int64]
) -> Outcomes:
    """Returns the outcomes of n rewrites. A word counts as changed unless an alignment with fewest edits keeps it.

    asked: int64 [n], the number of queries to auxiliaries; the victim is not queried.
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
