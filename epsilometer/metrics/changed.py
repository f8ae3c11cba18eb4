"""Share of changed words: the texts' words are aligned with the fewest edits, where an edit is a word replaced,
inserted or deleted; the share is edits / places of the alignment. An inserted word counts as one change, however many
words it moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class Changed:
    """Share of changed words: 0 for equal words, also if neither text has any; 1 if no word stays in its place."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] shares, 0 to 1."""
        from rapidfuzz.distance import Levenshtein

        shares = []
        for original, rewrite in zip(originals, rewrites, strict=True):
            unchanged = changed = 0
            for block in Levenshtein.opcodes(words(original), words(rewrite)):
                places = max(block.src_end - block.src_start, block.dest_end - block.dest_start)
                unchanged, changed = (
                    (unchanged + places, changed) if block.tag == "equal" else (unchanged, changed + places)
                )
            shares.append(changed / (unchanged + changed) if unchanged + changed else 0.0)
        return np.array(shares, np.float64)
