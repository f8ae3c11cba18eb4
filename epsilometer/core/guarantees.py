"""The claims of mechanisms, as data. Losses are in nats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any

from epsilometer.core.curves import Curve, Gdp, Renyi, Zcdp
from epsilometer.core.errors import UserError
from epsilometer.core.values import check_list

EPSILONS = (1e-9, 1e9)  # smallest and largest allowed nominal epsilon
NO_BUDGET = math.nan  # epsilon of a mechanism without a privacy budget: NaN makes an accidental use visible


class Granularity(StrEnum):
    """The unit that one epsilon protects: a part of a text, a text, a user, or an example of a training set."""

    TOKEN = "token"
    WORD = "word"
    TRIPLE = "triple"
    SENTENCE = "sentence"
    DOCUMENT = "document"
    USER = "user"  # all texts of one author together are one input
    EXAMPLE = "example"  # one example of a training set


class Neighbours(StrEnum):
    """The pairs of inputs that a claim compares."""

    ANY = "any"  # any two inputs of the unit's domain (local differential privacy)
    SAME_LENGTH = "same length"  # any two texts with the same number of units; the number itself is not protected
    # The next three are for training sets (whose units are examples) and corpora (whose units are people or documents):
    ADDED_OR_REMOVED = "added or removed"  # one input has one unit more; `Guarantee.public` names what is public
    REPLACED = "replaced"  # the inputs differ in one unit; the number of units is public
    ZEROED = "zeroed"  # in one input, one example has no influence; the number of examples is public


_COVERED = {
    Neighbours.ANY: "any two texts",
    Neighbours.SAME_LENGTH: "texts of equal length",
    Neighbours.ADDED_OR_REMOVED: "{sets} with one {unit} added or removed",
    Neighbours.REPLACED: "{sets} with one {unit} replaced",
    Neighbours.ZEROED: "{sets} with one {unit} zeroed",
}


WHOLE = (Granularity.SENTENCE, Granularity.DOCUMENT, Granularity.USER)  # the unit is the whole rewritten text


@dataclass(frozen=True)
class Guarantee:
    """A claim: for neighbours x, x' and every set S, P(M(x) in S) <= e^(epsilon d(x, x')) P(M(x') in S) + delta.

    epsilon:      nats per unit of `granularity`, and per unit of `metric` if there is one.
    delta:        the additive slack for a whole text.
    granularity:  the unit that epsilon protects; numbers of different granularities are not comparable.
    neighbours:   the pairs of inputs that the claim covers.
    metric:       None for plain (local) differential privacy, where d counts the differing units; else the name of the
                  distance d that multiplies epsilon (metric differential privacy, Chatzikokolakis et al. 2013).
    public:       the facts that the claim assumes to be public, in a few words; None if there are none.
    curve:        the claim in zCDP, Renyi or GDP (`zcdp`, `renyi`, `gdp`), in place of an epsilon. Then epsilon is
                  infinite and delta 0, since such a claim does not bound a pure loss.
    """

    epsilon: float
    granularity: Granularity
    neighbours: Neighbours
    delta: float = 0.0
    metric: str | None = None
    public: str | None = None
    curve: Curve | None = None

    def __post_init__(self) -> None:
        if self.curve is not None:
            self._check_curve()
            return
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise UserError(f"epsilon must be a finite number > 0, got {self.epsilon}", "EPS-C026")
        if not 0 <= self.delta < 1:
            raise UserError(f"delta must be in [0, 1), got {self.delta}", "EPS-C027")

    @classmethod
    def of_delta(cls, delta: float, granularity: Granularity, neighbours: Neighbours) -> Guarantee:
        """Return the claim (0, delta) with delta > 0: the total variation between neighbours is at most delta.

        This constructor is separate, so that the usual one can refuse every epsilon of 0 as a mistake.
        """
        if not delta > 0:
            raise UserError(f"delta must be in (0, 1) where epsilon is 0, got {delta}", "EPS-C028")
        claim = cls(1.0, granularity, neighbours, delta=delta)
        object.__setattr__(claim, "epsilon", 0.0)
        return claim

    @classmethod
    def zcdp(
        cls, rho: float, granularity: Granularity = Granularity.DOCUMENT, neighbours: Neighbours = Neighbours.ANY
    ) -> Guarantee:
        """Return the claim of rho-zCDP: the Renyi divergence of every order a > 1 is at most rho a."""
        return cls(math.inf, granularity, neighbours, curve=Zcdp(rho))

    @classmethod
    def renyi(
        cls,
        alpha: float,
        epsilon: float,
        granularity: Granularity = Granularity.DOCUMENT,
        neighbours: Neighbours = Neighbours.ANY,
    ) -> Guarantee:
        """Return the claim of (alpha, epsilon)-Renyi differential privacy. It also holds at orders below alpha."""
        return cls(math.inf, granularity, neighbours, curve=Renyi(alpha, epsilon))

    @classmethod
    def gdp(
        cls, mu: float, granularity: Granularity = Granularity.DOCUMENT, neighbours: Neighbours = Neighbours.ANY
    ) -> Guarantee:
        """Return the claim of mu-Gaussian differential privacy."""
        return cls(math.inf, granularity, neighbours, curve=Gdp(mu))

    def _check_curve(self) -> None:
        if not math.isinf(self.epsilon) or self.delta or self.metric is not None:
            raise UserError(
                "a claim that is a curve has no epsilon, delta or metric; make it by Guarantee.zcdp, renyi or gdp",
                "EPS-C029",
            )
        if self.granularity in (Granularity.TOKEN, Granularity.WORD, Granularity.TRIPLE):
            raise UserError(
                f"a claim in zCDP, Renyi or GDP must be per document, got {self.granularity.value}; compose it over "
                "the units of a text (their rhos and divergences add), and claim the sum per document",
                "EPS-C030",
            )
        if self.neighbours is Neighbours.SAME_LENGTH:
            raise UserError(
                "a claim in zCDP, Renyi or GDP must cover any two texts, got texts of the same length", "EPS-C031"
            )

    @property
    def size(self) -> float:
        """Epsilon, or the parameter of a curve: rho, the Renyi epsilon or mu. Compare only sizes of the same kind."""
        return self.epsilon if self.curve is None else self.curve.size

    @property
    def of_any_texts(self) -> bool:
        """True if the same epsilon and delta hold between any two texts."""
        whole = self.granularity in WHOLE and self.curve is None
        return whole and self.neighbours is Neighbours.ANY and self.metric is None

    def describe(self) -> str:
        """Return the claim in a few words, for tables: `0.5 per word, times L2 distance; same length`."""
        size = f"{self.epsilon:g}" if self.curve is None else self.curve.describe()
        parts = [f"{size} per {self.granularity.value}"]
        if self.metric:
            parts.append(f"times {self.metric}")
        if self.delta:
            parts.append(f"delta {self.delta:g}")
        taken = f"; public: {self.public}" if self.public else ""
        sets = "training sets" if self.granularity is Granularity.EXAMPLE else "corpora"
        covered = _COVERED[self.neighbours].format(sets=sets, unit=self.granularity.value)
        return ", ".join(parts) + f"; {covered}{taken}"


def stored(epsilon: float | None) -> float | None:
    """Return an epsilon as tables store it: None for NO_BUDGET."""
    return None if epsilon is None or math.isnan(epsilon) else float(epsilon)


def restored(epsilon: float | None) -> float:
    """Return the epsilon that `stored` converted: NO_BUDGET for None."""
    return NO_BUDGET if epsilon is None else float(epsilon)


def budget_name(epsilon: float | None) -> str:
    """Return an epsilon as file names and keys spell it: `0.5`; `none` for NO_BUDGET."""
    number = stored(epsilon)
    return "none" if number is None else f"{number:g}"


def at_budget(epsilon: float | None) -> str:
    """Return ` at epsilon 0.5`, for a sentence; an empty string for NO_BUDGET."""
    number = stored(epsilon)
    return "" if number is None else f" at epsilon {number:g}"


def check_epsilons(epsilons: Sequence[float], place: str = "epsilons") -> None:
    """Raise UserError unless `epsilons` is a list of distinct numbers within EPSILONS. The error names the `place`."""
    value: Any = epsilons
    check_list(value, place)
    if not len(value):
        raise UserError(f"{place} is empty; give at least one epsilon > 0", "EPS-C032")
    for i, epsilon in enumerate(value):
        number = isinstance(epsilon, Real) and not isinstance(epsilon, bool)
        if not (number and math.isfinite(epsilon) and float(epsilon) > 0):
            shown = repr(epsilon) if isinstance(epsilon, str) else epsilon
            raise UserError(f"epsilon must be a finite number > 0, got {shown} ({place}[{i}])", "EPS-C033")
        if not EPSILONS[0] <= float(epsilon) <= EPSILONS[1]:
            raise UserError(
                f"epsilon must be from {EPSILONS[0]:g} to {EPSILONS[1]:g}, the range that 64-bit numbers and the axes "
                f"of figures resolve, got {epsilon:g} ({place}[{i}])",
                "EPS-C034",
            )
    if len(set(epsilons)) < len(epsilons):
        raise UserError(
            f"{place} contains an epsilon twice: {', '.join(f'{e:g}' for e in epsilons)}; remove the duplicate",
            "EPS-C035",
        )
