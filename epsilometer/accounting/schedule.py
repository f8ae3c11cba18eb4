"""The examples that enter each step of a training, as public numbers that the sampler and the accountant both read.

The rate is q = 1 / ceil(N / B) for N examples and batches of B, a fraction, and a pass over the data is ceil(N / B)
steps, an integer: neither is ever recovered from a rounded quotient. A step divides its sum by the public q N.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from epsilometer.core.errors import UserError

MOST_STEPS = 10**9  # of a training; more than that cannot be composed


@dataclass(frozen=True)
class _Schedule:
    """The examples of each step.

    texts: the examples N, a public number; batch: nominal examples in a step, B; epochs: passes over the data.
    """

    texts: int
    batch: int
    epochs: int

    sampling: ClassVar[str]

    def __post_init__(self) -> None:
        for name in ("texts", "batch", "epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"{name} must be a whole number >= 1, got {value!r}", "EPS-L005")
        if self.epochs > MOST_STEPS:
            raise UserError(f"epochs must be at most {MOST_STEPS:,}, got {self.epochs:,}", "EPS-L006")
        if self.batch > self.texts:
            raise UserError(
                f"batch must be at most the number of texts, {self.texts}, got {self.batch}; set a smaller batch",
                "EPS-L007",
            )

    @property
    def batches(self) -> int:
        """The number of steps of one pass, ceil(N / B)."""
        return -(-self.texts // self.batch)

    @property
    def rate(self) -> Fraction:
        """The probability q that an example enters a step."""
        return Fraction(1, self.batches)

    @property
    def steps(self) -> int:
        """The number of all steps of the training."""
        return self.epochs * self.batches

    @property
    def expected_batch(self) -> Fraction:
        """The mean number of examples of a step, q N, by which the noisy sum is divided: a public number."""
        return self.rate * self.texts


@dataclass(frozen=True)
class Poisson(_Schedule):
    """Every example enters every step by its own coin of probability q. An empty batch is a step like any other."""

    sampling: ClassVar[str] = "poisson"


@dataclass(frozen=True)
class Shuffled(_Schedule):
    """Disjoint batches, the same in every pass: each example enters one step of a pass, and none is hidden by chance.

    The N examples are dealt into ceil(N / B) batches whose sizes are public and differ by one at most.
    """

    sampling: ClassVar[str] = "shuffled"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of examples of each batch of a pass, in order."""
        least, more = divmod(self.texts, self.batches)
        return (least + 1,) * more + (least,) * (self.batches - more)


Schedule = Poisson | Shuffled
