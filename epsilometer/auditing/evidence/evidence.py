"""Evidence: the observations of one figure, as plain data without an interval.

The caller chooses the error of the bounds (`bounds.py`). So the same evidence serves an audit at error alpha, the
strongest of m attacks at error alpha / m, and a gate whose limits share alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from epsilometer.auditing.evidence.limit import Scale


class By(StrEnum):
    """The source of evidence."""

    ATTACK = "attacks"
    LAW = "law"
    LATENTS = "law of latents"
    COUNT = "count"
    RELEASES = "all releases"


class Covers(StrEnum):
    """The adversaries that an upper bound covers: every adversary, or the attacks that ran."""

    EVERYONE = "everyone"
    THESE = "these attacks"


@dataclass(frozen=True)
class Hits:
    """Counts of n independent trials. right: the number of right guesses, or of identifiers that survived."""

    right: int
    n: int

    def __add__(self, other: Hits) -> Hits:
        """Return the sum of both counts."""
        return Hits(self.right + other.right, self.n + other.n)


@dataclass(frozen=True)
class Means:
    """Shares of right trials in independent sets.

    shares: a number in [0, 1] for each set, such as the set's share of right trials. The number of sets was fixed
    beforehand. each: the number of trials in every set. If sets differ in size, or if the numbers are not shares of
    right trials, `each` is 1, so every set counts as one trial.
    """

    shares: Sequence[float]
    each: int = 1

    @property
    def mean(self) -> float:
        """The mean share of the sets; 0 without sets."""
        return sum(self.shares) / len(self.shares) if self.shares else 0.0

    @property
    def right(self) -> int:
        """The number of right trials in all sets."""
        return round(sum(self.shares) * self.each)

    @property
    def n(self) -> int:
        """The number of trials in all sets."""
        return len(self.shares) * self.each


@dataclass(frozen=True)
class AtLeast:
    """Counts of n independent trials of one case, for a figure about the worst of several cases.

    These trials bound the figure only from below: another case may have a higher rate. right: the number of right
    guesses.
    """

    right: int
    n: int


class Sure(NamedTuple):
    """Counts of right guesses (hits) and wrong guesses (misses) whose score is beyond a threshold."""

    hits: int
    misses: int


@dataclass(frozen=True)
class Confident:
    """The most confident guesses of n trials, by thresholds that separate trials chose.

    beyond: counts of the guesses beyond the threshold that proved most in the separate trials. between: for each
    interval of a grid of thresholds, the hits scored above the interval's lower end and the misses scored at or above
    its upper end (`Scored.between`).
    """

    beyond: Sure
    between: Sequence[Sure]
    n: int

    def __add__(self, other: Confident) -> Confident:
        """Return the sum of both counts."""
        beyond, *between = (
            Sure(a + c, b + d)
            for (a, b), (c, d) in zip([self.beyond, *self.between], [other.beyond, *other.between], strict=True)
        )
        return Confident(beyond, between, self.n + other.n)

    @property
    def right(self) -> int:
        """The number of hits in `beyond`."""
        return self.beyond.hits


@dataclass(frozen=True)
class Computed:
    """Computed bounds of a figure, `low` and `high`; each is wrong with probability at most `error`.

    error: the p-value, if the figure is a refuted claim. n: the number of compared pairs, or of the trials behind a
    p-value.
    """

    low: float
    high: float
    error: float
    n: int = 0


Data = Hits | Means | AtLeast | Confident | Computed


@dataclass(frozen=True)
class Evidence:
    """Observations of one figure.

    of: the name of the observed attack, kind or label. by: the source. covers: the adversaries that an upper bound
    covers.
    """

    of: str
    by: By
    scale: Scale
    data: Data
    covers: Covers
