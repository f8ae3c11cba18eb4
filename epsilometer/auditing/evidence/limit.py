"""A limit on a figure, and the scale that relates the figure to the rate behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from epsilometer.auditing.estimation.successes import loss_at, success_bound

Measure = Literal["loss", "delta_at_4", "identifiers", "attribute", "linking"]


@dataclass(frozen=True)
class Scale:
    """A figure as a function of the observed rate.

    options: the number of equally likely options of an adversary whose loss in nats is the figure (TeDA eq. 10);
    None where the rate itself is the figure: a share, or a delta. of_texts: True if a trial is a tested text.
    partly: for identifiers, whether those that survive in part count. joined: the number of attributes.
    """

    measure: Measure
    options: int | None = None
    partly: bool = False
    joined: int = 1

    @classmethod
    def loss(cls, candidates: int) -> Scale:
        """Return the scale of the loss, in nats, of naming the source among this number of candidates."""
        return cls("loss", candidates)

    def rate(self, figure: float) -> float:
        """Return the rate at which the figure has this value."""
        return figure if self.options is None else success_bound(figure, self.options)

    def figure(self, rate: float) -> float:
        """Return the figure at a rate; infinite nats at 1."""
        return rate if self.options is None else loss_at(rate, self.options)


TAIL = Scale("delta_at_4")
"""Delta at 4 nats, as the mean of the counts of confident guesses (`estimation/tail.py`)."""


@dataclass(frozen=True)
class Limit:
    """The largest allowed value of a figure.

    allowed: in the scale's unit: nats, a delta or a share. source: its origin in words. of_baseline: True if
    it is a value that was accepted earlier.
    """

    allowed: float
    scale: Scale
    source: str
    of_baseline: bool = False

    @property
    def rate(self) -> float:
        """The rate at which the figure equals the allowed value."""
        return self.scale.rate(self.allowed)
