"""The kinds of noisy output of one training step, each described by the parameters that an accountant needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilometer.core.errors import UserError
from epsilometer.core.von_mises_fisher import check_concentration

MOST_CONCENTRATED = 1e9  # no loss distribution is computed for a larger kappa


@dataclass(frozen=True)
class Gaussian:
    """A sum of vectors of length at most 1, with independent normal noise on every coordinate.

    sigma: the noise's standard deviation, in units of the sum's sensitivity to one added or removed vector, which is 1.
    """

    sigma: float

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise UserError(
                f"sigma must be a finite number > 0, got {self.sigma}; without noise no epsilon is finite", "EPS-L002"
            )


@dataclass(frozen=True)
class VonMisesFisher:
    """One von Mises-Fisher draw per example about its gradient's direction, or one draw per part of the gradient.

    kappa:       the concentration of each draw, at most 1e9.
    dimensions:  the dimension d of each part; a gradient that is drawn as a whole is one part.
    """

    kappa: float
    dimensions: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UserError(
                "dimensions is empty; give the length of the gradient, or the length of each part", "EPS-L003"
            )
        for dimension in self.dimensions:
            check_concentration(self.kappa, dimension)
        if self.kappa > MOST_CONCENTRATED:
            raise UserError(
                f"kappa must be at most {MOST_CONCENTRATED:g}, got {self.kappa:g}, since no bounds on epsilon "
                "are known for less noise; set a smaller kappa",
                "EPS-L004",
            )

    @property
    def parts(self) -> int:
        """The number of independent draws per example."""
        return len(self.dimensions)


Release = Gaussian | VonMisesFisher
