"""The release of one step of a training about its examples, as an accountant needs to know it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilometer.core.errors import UserError
from epsilometer.core.von_mises_fisher import check_concentration

MOST_CONCENTRATED = 1e9  # beyond it no loss distribution is computed


@dataclass(frozen=True)
class Gaussian:
    """A sum of vectors of length at most 1 with independent normal noise on every coordinate.

    sigma: the noise's deviation in units of that length, the sum's sensitivity to one vector that is added or removed.
    """

    sigma: float

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise UserError(
                f"sigma must be a finite number > 0, got {self.sigma}; without noise no epsilon is finite", "EPS-L002"
            )


@dataclass(frozen=True)
class VonMisesFisher:
    """A draw for every example about the direction of its gradient, or about those of the gradient's parts.

    kappa:       the concentration of each draw, at most 1e9.
    dimensions:  the numbers of each part, d; one part where the gradient is drawn as a whole.
    """

    kappa: float
    dimensions: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UserError("a draw needs at least one part, got none; give the length of the gradient", "EPS-L003")
        for dimension in self.dimensions:
            check_concentration(self.kappa, dimension)
        if self.kappa > MOST_CONCENTRATED:
            raise UserError(
                f"kappa must be at most {MOST_CONCENTRATED:g}, got {self.kappa:g}: with less noise no bracket of "
                "epsilon is known; set a smaller kappa",
                "EPS-L004",
            )

    @property
    def parts(self) -> int:
        """The number of independent draws per example."""
        return len(self.dimensions)


Release = Gaussian | VonMisesFisher
