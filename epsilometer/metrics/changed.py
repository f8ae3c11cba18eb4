"""Share of changed words: the texts' words are aligned with the fewest edits, an edit being a word replaced, put in or
left out; the share is edits / places of the alignment. A word put in counts as one change, however many words it moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class Changed:
    """0 for equal words, also where neither text has any; 1 where no word is kept in its place."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """The [n] shares, 0 to 1."""
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
