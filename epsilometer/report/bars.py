"""Bars from "nothing learnt" to "certain", one per mechanism.

The scale is right guesses of 100 between two texts. The page's style sheet draws the bars without a script, so they fit
any screen and can be printed. The text at each bar states its figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from epsilometer.report.wording import CHANCE


@dataclass(frozen=True)
class Bar:
    """A bar: the attacker's right guesses about the rewrites of one mechanism at one budget.

    name: the mechanism, with its budget. means: the mechanism's description in plain words. status: the decision. low,
    high: lower and upper bound on the right guesses of 100; high is None without an upper bound. said: both bounds in
    words. limit: the allowed right guesses of 100. use: the utility of the rewrites, in words.
    """

    name: str
    means: str
    status: str
    low: float
    high: float | None
    said: str
    limit: float
    use: str

    @property
    def shown(self) -> float:
        """The lower bound, in percent of the scale."""
        return _place(self.low)

    @property
    def possible(self) -> float:
        """The upper bound, in percent of the scale; 100 without an upper bound."""
        return _place(100.0 if self.high is None else self.high)

    @property
    def allowed(self) -> float:
        """The limit, in percent of the scale."""
        return _place(self.limit)


@dataclass(frozen=True)
class Bars:
    """The bars of a data set. caption: how to read them."""

    heading: str
    caption: str
    rows: Sequence[Bar]
    kind: ClassVar[str] = "bars"


def _place(guesses: float) -> float:
    """Return the position from chance (0) to certainty (100), with one decimal. guesses: right guesses of 100."""
    return round(100 * (min(max(guesses, CHANCE), 100.0) - CHANCE) / (100.0 - CHANCE), 1)
