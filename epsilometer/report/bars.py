"""Bars from "nothing learnt" to "certain", one per mechanism, drawn by the page's own style sheet.

The scale is right guesses of 100 between two texts. A bar needs no script, fits any screen and can be printed. The
words beside it say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from epsilometer.report.wording import CHANCE


@dataclass(frozen=True)
class Bar:
    """A bar: the attacker's right guesses about the rewrites of one mechanism at one budget.

    name: the mechanism, with its budget. means: what it does, in plain words. status: the decision. low: lower bound
    on the right guesses of 100. high: upper bound; None without one. said: both in words.
    limit: the guesses allowed. use: what the rewrites keep.
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
        """The part of the scale that an attacker is shown to learn, in percent."""
        return _place(self.low)

    @property
    def possible(self) -> float:
        """The part of the scale that an attacker may learn, in percent; 100 without an upper bound."""
        return _place(100.0 if self.high is None else self.high)

    @property
    def allowed(self) -> float:
        """The place of the limit, in percent of the scale."""
        return _place(self.limit)


@dataclass(frozen=True)
class Bars:
    """The picture of a data set. caption: says how to read it."""

    heading: str
    caption: str
    rows: Sequence[Bar]
    kind: ClassVar[str] = "bars"


def _place(guesses: float) -> float:
    """Return percent of the way from chance to certainty, with one decimal."""
    return round(100 * (min(max(guesses, CHANCE), 100.0) - CHANCE) / (100.0 - CHANCE), 1)
