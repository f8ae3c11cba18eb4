"""An example attack: it guesses the candidate whose word lengths are nearest to the rewrite's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import Context, choose
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites


@component
class Outline:
    """Compares the lengths of words, which a mechanism that masks letters does not change."""

    power: float = 1.0  # a setting; params.yaml may give another value

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.int32], context: Context) -> NDArray[np.int16]:
        """Return the slot of the nearest candidate in each trial; ties are broken at random."""
        scores = np.zeros(candidates.shape)
        for row, (text, slots) in enumerate(zip(rewrites.texts, candidates, strict=True)):
            for slot, number in enumerate(slots):
                pairs = zip(text.split(), context.texts[number].split(), strict=False)
                scores[row, slot] = -sum(abs(len(a) - len(b)) ** self.power for a, b in pairs)
        return choose(scores, context.noise)
