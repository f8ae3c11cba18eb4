"""The schedule of a training: the public numbers of examples and steps that sampler and accountant use.

For N examples and batches of B, the rate is the exact fraction q = 1 / ceil(N / B), and a pass over the data has
ceil(N / B) steps. Neither number is ever computed from a rounded quotient. A step divides its sum by the public
number q N.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from epsilometer.core.errors import UserError

MOST_STEPS = 10**9  # largest number of steps that can be composed


@dataclass(frozen=True)
class _Schedule:
    """The examples of each step.

    texts: the number N of examples, which is public. batch: the nominal number B of examples in a step. epochs: the
    number of passes over the data.
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
        """The mean number of examples of a step, q N. It is public, and the noisy sum is divided by it."""
        return self.rate * self.texts


@dataclass(frozen=True)
class Poisson(_Schedule):
    """Sampling by coins: every example enters every step with probability q. An empty batch is a normal step."""

    sampling: ClassVar[str] = "poisson"


@dataclass(frozen=True)
class Shuffled(_Schedule):
    """Disjoint batches, the same in every pass: each example enters one known step of every pass.

    The N examples are dealt into ceil(N / B) batches whose sizes are public and differ by one at most.
    """

    sampling: ClassVar[str] = "shuffled"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of examples of each batch of a pass, in order."""
        least, more = divmod(self.texts, self.batches)
        return (least + 1,) * more + (least,) * (self.batches - more)


Schedule = Poisson | Shuffled
