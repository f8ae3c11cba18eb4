"""The length attack: the candidate whose number of words is nearest. How much of a loss is length alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.attack import Context, choose
from epsilometer.component import component
from epsilometer.language.words import words
from epsilometer.mechanism import Rewrites


@component
class LengthAttack:
    """Needs no model and reads no word."""

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """The candidate with the least difference in length."""
        known = np.array([len(words(text)) for text in context.texts])
        length = np.array([len(words(text)) for text in rewrites.texts])
        return choose(-np.abs(known[candidates] - length[:, None]).astype(float), context.noise)
