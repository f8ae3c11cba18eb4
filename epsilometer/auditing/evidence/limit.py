"""A limit on a figure, and the scale on which the figure and the rate behind it correspond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from epsilometer.auditing.estimation.successes import loss_at, success_bound

Measure = Literal["loss", "delta_at_4", "identifiers", "attribute", "linking"]


@dataclass(frozen=True)
class Scale:
    """A figure as a function of the rate that is observed.

    options: among how many equally likely options an adversary guesses, whose loss in nats is the figure (TeDA eq. 10);
    None where the rate itself is the figure: a share, or a delta. of_texts: whether a trial is a text that is tested
    on. partly: of identifiers, whether those that survive in part count. joined: of how many attributes.
    """

    measure: Measure
    options: int | None = None
    partly: bool = False
    joined: int = 1

    @classmethod
    def loss(cls, candidates: int) -> Scale:
        """The loss, in nats, of naming the source among this number of candidates."""
        return cls("loss", candidates)

    def rate(self, figure: float) -> float:
        """Return the rate at which the figure has this value."""
        return figure if self.options is None else success_bound(figure, self.options)

    def figure(self, rate: float) -> float:
        """Return the figure at a rate; infinite nats at 1."""
        return rate if self.options is None else loss_at(rate, self.options)


TAIL = Scale("delta_at_4")
"""Delta at 4 nats, as the mean of what confident guesses count (`estimation/tail.py`)."""


@dataclass(frozen=True)
class Limit:
    """The most that a figure may be.

    allowed: in the scale's unit: nats, a delta or a share. source: in words where it comes from. of_baseline: whether
    that is what was accepted earlier.
    """

    allowed: float
    scale: Scale
    source: str
    of_baseline: bool = False

    @property
    def rate(self) -> float:
        """The rate at which the figure is what is allowed."""
        return self.scale.rate(self.allowed)
