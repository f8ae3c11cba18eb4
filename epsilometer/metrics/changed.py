"""Share of changed words.

The words of original and rewrite are aligned with the fewest edits. An edit replaces, inserts or deletes one word. The
share is the number of edits divided by the number of positions in the alignment. An inserted word counts as one edit,
however many later words it shifts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class Changed:
    """Share of changed words: 0 for equal words or two texts without words, 1 if the alignment keeps no word."""

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
