"""Claims other than a single epsilon: zero-concentrated, Renyi and Gaussian differential privacy. Losses are in nats.

Each claim of a mechanism M bounds delta at every level c: P(M(x) in S) <= e^c P(M(x') in S) + delta(c), for neighbours
x, x' and any set S of outputs. Let the Renyi divergence of order a be at most D. Then, by Canonne, Kamath and Steinke
2020 ("The discrete Gaussian for differential privacy", proposition 12),

    delta(c) = e^((a - 1)(D - c)) (1 - 1/a)^a / (a - 1).

For rho-zCDP, D is rho a at every order a, and delta is the minimum over a grid of orders (Bun and Steinke 2016). For
mu-GDP, by Dong, Roth and Su 2022 ("Gaussian differential privacy", corollary 2.13),

    delta(c) = Phi(mu / 2 - c / mu) - e^c Phi(-mu / 2 - c / mu).

A claim in zCDP or Renyi implies its curve delta(c), but the curve does not imply the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

Array = NDArray[np.float64]

LEVELS = np.concatenate([[0.0], np.geomspace(1e-3, 100.0, 400)])  # every level gives a bound on an adversary's success
_ORDERS = 1 + np.geomspace(1e-3, 1e4, 400)  # every order gives a valid delta(c); the smallest is used


@dataclass(frozen=True)
class Renyi:
    """The Renyi divergence of this order between neighbours is at most epsilon, in either direction (Mironov 2017)."""

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        if not (self.order > 1 and math.isfinite(self.order)):
            raise UserError(f"a Renyi order must be a finite number > 1, got {self.order}", "EPS-C020")
        _check("a Renyi epsilon", self.epsilon)

    @property
    def size(self) -> float:
        """The parameter of the claim."""
        return self.epsilon

    def delta(self, levels: Array) -> Array:
        """Return the delta that holds at each level."""
        return _delta_of_orders(np.array([self.order]), np.array([self.epsilon]), levels)

    @property
    def unit(self) -> str:
        """The unit of `size`, for a sentence."""
        return "nats of Renyi divergence"

    def describe(self) -> str:
        """Return the claim in a few words."""
        return f"Renyi {self.epsilon:g} at order {self.order:g}"


@dataclass(frozen=True)
class Zcdp:
    """The Renyi divergence of every order a > 1 between neighbours is at most rho a (Bun and Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        _check("rho", self.rho)

    @property
    def size(self) -> float:
        """The parameter of the claim."""
        return self.rho

    def delta(self, levels: Array) -> Array:
        """Return the delta that holds at each level."""
        return _delta_of_orders(_ORDERS, self.rho * _ORDERS, levels)

    @property
    def unit(self) -> str:
        """The unit of `size`, for a sentence."""
        return "of rho"

    def describe(self) -> str:
        """Return the claim in a few words."""
        return f"zCDP rho {self.rho:g}"


@dataclass(frozen=True)
class Gdp:
    """Neighbours are at least as hard to distinguish as N(0, 1) and N(mu, 1) (Dong, Roth and Su 2022)."""

    mu: float

    def __post_init__(self) -> None:
        _check("mu", self.mu)

    @property
    def size(self) -> float:
        """The parameter of the claim."""
        return self.mu

    def delta(self, levels: Array) -> Array:
        """Return the delta that holds at each level."""
        mu = self.mu
        both = [(_below(mu / 2 - c / mu), _below(-mu / 2 - c / mu), c) for c in np.atleast_1d(levels).tolist()]
        return np.array([max(0.0, here - (math.exp(c) * there if there else 0.0)) for here, there, c in both])

    @property
    def unit(self) -> str:
        """The unit of `size`, for a sentence."""
        return "of mu"

    def describe(self) -> str:
        """Return the claim in a few words."""
        return f"GDP mu {self.mu:g}"


Curve = Zcdp | Renyi | Gdp


_KINDS: dict[str, type[Zcdp] | type[Renyi] | type[Gdp]] = {"zcdp": Zcdp, "renyi": Renyi, "gdp": Gdp}


def plain(curve: Curve) -> dict[str, Any]:
    """Return the curve as data for JSON; `of_plain` restores it."""
    (kind,) = (name for name, of in _KINDS.items() if isinstance(curve, of))
    return {"kind": kind, **asdict(curve)}


def of_plain(data: Mapping[str, Any]) -> Curve:
    """Return the curve that `plain` stored."""
    return _KINDS[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})


def largest_success(curve: Curve, candidates: int) -> float:
    """Return the largest probability, allowed by the curve, of a right guess among equally likely candidates.

    It is the minimum over LEVELS c of (e^c + (k - 1) delta(c)) / (e^c + k - 1), with k candidates.
    """
    odds = np.exp(LEVELS)
    return min(1.0, float(((odds + (candidates - 1) * curve.delta(LEVELS)) / (odds + candidates - 1)).min()))


def _delta_of_orders(orders: Array, divergences: Array, levels: Array) -> Array:
    logs = (orders - 1) * (divergences - np.atleast_1d(levels)[:, None])
    logs = logs + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    least: Array = np.exp(np.minimum(logs.min(axis=1), 0.0))
    return least


def _below(x: float) -> float:
    """Return Phi(x), to full relative accuracy in the tail."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _check(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise UserError(f"{name} must be a finite number > 0, got {value}", "EPS-C021")
