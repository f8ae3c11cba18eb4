"""Vickrey: MVC that often writes the second nearest word (Xu, Feyisetan, Aggarwal, Xu and Teissier, 2021).

The word's vector is moved as by MVC. Of the two words w1, w2 nearest to where it lands, at distances d1 <= d2,

    P(w1) = (1 - t) d2 / (t d1 + (1 - t) d2)

(arXiv:2010.11947's successor, "On a utilitarian approach to privacy preserving text generation", section 4). t = 0 is
MVC, t = 1 always writes the second. The choice looks at the moved point alone, so it is post-processing, and the claim
is MVC's: epsilon times the Euclidean distance.

Assumptions: as MVC. Departures: as MVC; and the released code (sjmeis/MLDP 65a9eb8) looks at the private word again and
leaves it out where it is the nearest, which is no post-processing; here the private word is not looked at twice.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.component import component
from epsilometer.language.moved_words import MovedWords


@component
class Vickrey(MovedWords):
    """t: how much the second nearest word is preferred."""

    t: Annotated[float, Field(ge=0, le=1)] = 0.5

    def chosen(self, points: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """One of the two nearest words."""
        words, far = self.vectors.neighbours(points, 2)
        first, second = self.t * far[:, 0], (1 - self.t) * far[:, 1]
        # Where the point lies on two equal words, both weigh nothing, and either will do.
        nearest = second / np.maximum(first + second, np.finfo(float).tiny)
        return np.where(uniforms < nearest, words[:, 0], words[:, 1])
