"""Vickrey: `mvc` that often writes the second-nearest word (Xu, Feyisetan, Aggarwal, Xu and Teissier, 2021).

In plain words it adds random noise to the meaning of each word, and often writes the second nearest word instead of the
nearest.

The word's vector is moved as in MVC. Let w1, w2 be the words nearest to the moved point, at distances d1 <= d2. Then

    P(w1) = (1 - t) d2 / (t d1 + (1 - t) d2)

("On a utilitarian approach to privacy preserving text generation", section 4; this paper succeeds arXiv:2010.11947).
t = 0 is MVC; t = 1 always writes w2. The choice depends only on the moved point, so it is post-processing, and the
claim is that of MVC: epsilon times the Euclidean distance.

Assumptions and departures: those of MVC. The reference code (sjmeis/MLDP 65a9eb8) has another probability, and uses the
private word w again. If w is the nearest word, w is left out, and w1, w2 are the next two words. Then

    P(w1) = 1 / (1 + e^(d1^2)).

This is the first weight of a softmax of -d1^2 and 0. The squares come from the reference code's search, which returns
squared distances. If d1 is large, w2 is written nearly always. If w is the nearest word, w is never written. This
choice is not post-processing of the moved point. `as_published: true` makes this choice and MVC's claim, so that an
audit can refute the claim. Two close words, between which the claim allows almost no loss, can be distinguished, since
a word is left out only if it is the private word. (The search is exact here, and approximate in the reference code.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import expit

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.moved import MovedWords


@component
class Vickrey(MovedWords):
    """Vickrey.

    t: preference for the second-nearest word; as_published: True for the reference code's choice, which has no t.
    """

    t: Annotated[float, Field(ge=0, le=1)] = 0.5
    as_published: bool = False

    @model_validator(mode="after")
    def _one_price(self) -> Vickrey:
        if self.as_published and self.t != 0.5:
            raise ValueError(f"t is {self.t:g}, but as_published: true has no t; omit t")
        return self

    def chosen(
        self, points: NDArray[np.float64], uniforms: NDArray[np.float64], private: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return one of the two nearest words. As published, the private word is left out if it is the nearest."""
        if self.as_published:
            words, far = self._others(points, private)
            nearest = expit(-(far[:, 0] ** 2))
        else:
            words, far = self.vectors.neighbours(points, 2)
            first, second = self.t * far[:, 0], (1 - self.t) * far[:, 1]
            # If the point equals two words with equal vectors, both weights are 0, and the second is chosen.
            nearest = second / np.maximum(first + second, np.finfo(float).tiny)
        return np.where(uniforms < nearest, words[:, 0], words[:, 1])

    def moved(
        self, texts: Sequence[str], epsilon: float, noise: Noise
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return points as in `MovesVectors`; None as published, since the choice uses the private word again."""
        return None if self.as_published else super().moved(texts, epsilon, noise)

    def _others(
        self, points: NDArray[np.float64], private: NDArray[np.integer]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the two nearest words and their distances, without the private word if it is the nearest."""
        if len(self.vectors) < 3:
            raise UserError(
                f"as_published: true needs at least 3 words, but {self.resource} has {len(self.vectors)}; give more "
                "words",
                "EPS-M094",
            )
        words, far = self.vectors.neighbours(points, 3)
        places = np.arange(2) + (words[:, :1] == private[:, None])
        return np.take_along_axis(words, places, 1), np.take_along_axis(far, places, 1)
