"""A limit on a figure, and the scale that relates the figure to the rate behind it."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.auditing.estimation.successes import loss_at, success_bound


@dataclass(frozen=True)
class Scale:
    """A figure as a function of an observed rate in [0, 1].

    measure: "loss", "delta_at_4", "identifiers", "attribute", "linking", "unit", "worst_pair", "claim", "similarity",
    or the measure of another question. options: if the figure is a loss in nats, the number of equally likely options
    among which the adversary guesses (TeDA eq. 10). Otherwise None: the figure is the rate itself (a share or a delta)
    or linear in the rate. candidates: for a delta, the number of candidates per trial. partly: for identifiers, True if
    partial survival counts. joined: for an attribute, the number of its joined columns. lowest: the figure at rate 0;
    the figure at rate 1 is 1.
    """

    measure: str
    options: int | None = None
    candidates: int = 2
    partly: bool = False
    joined: int = 1
    lowest: float = 0.0

    @classmethod
    def loss(cls, candidates: int) -> Scale:
        """Return the scale of the loss, in nats, of guessing the source among this number of candidates."""
        return cls("loss", candidates)

    @classmethod
    def tail(cls, candidates: int) -> Scale:
        """Return the scale of delta at 4 nats by counts of confident guesses (`estimation/tail.py`)."""
        return cls("delta_at_4", candidates=candidates)

    def rate(self, figure: float) -> float:
        """Return the rate at which the figure has this value."""
        if self.options is None:
            return (figure - self.lowest) / (1 - self.lowest)
        return success_bound(figure, self.options)

    def figure(self, rate: float) -> float:
        """Return the figure at a rate; a loss is infinite at rate 1."""
        if self.options is None:
            return self.lowest + (1 - self.lowest) * rate
        return loss_at(rate, self.options)


@dataclass(frozen=True)
class Limit:
    """The largest or the smallest allowed value of a figure.

    allowed: the value, in the scale's unit: nats, a delta or a share. source: the limit's origin in words. at_least:
    True if `allowed` is the smallest allowed value. of_baseline: True if the limit derives from a baseline.
    """

    allowed: float
    scale: Scale
    source: str
    at_least: bool = False
    of_baseline: bool = False

    @property
    def rate(self) -> float:
        """The rate at which the figure equals the allowed value."""
        return self.scale.rate(self.allowed)
