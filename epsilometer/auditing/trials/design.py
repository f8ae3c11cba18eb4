"""The design of an audit's trials: all settings besides the texts, the mechanism and the attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal

from epsilometer.core.component import described
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.core.sizes import MOST_TRIALS
from epsilometer.core.values import check_list, check_number, check_whole
from epsilometer.runtime.progress import note


@dataclass(frozen=True)
class Design:
    """The settings for drawing and judging trials.

    candidates:  the size k of a candidate set, or "all" to make all k texts candidates in every trial. With "all",
                 right guesses in T trials prove up to about ln(k - 1) + ln T - ln ln(2 / alpha) nats.
    temperature: the temperature of Probabilistic Transition Sampling (TeDA App. C). Candidates are dissimilar below 0,
                 similar above 0, and uniform at 0. Temperature 0 needs no embeddings.
    alpha:       the error probability of each interval.
    seed:        part of the name of every random stream.
    fpr:         the false positive rate at which the true positive rate is measured (`roc`).
    prior:       for each of the k slots, the probability, known to the adversary, that it holds the source; None for
                 equal probabilities. With a prior, losses are computed by `successes.success_bound`.

    Raises UserError for values outside their range. Only the drawing of sets checks that there are at least k texts.
    """

    candidates: int | Literal["all"] = 2
    temperature: float = -10_000
    alpha: float = 0.01
    seed: int = 0
    fpr: float = 0.01
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.candidates, str) and self.candidates != "all":
            raise UserError(f'candidates (k) must be a number or "all", got {self.candidates!r}', "EPS-A169")
        if self.candidates != "all":
            check_whole(self.candidates, "candidates (k)")
        if self.candidates != "all" and self.candidates < 2:
            raise UserError(
                f"candidates (k) must be between 2 and the number of texts, got {self.candidates}", "EPS-A170"
            )
        check_whole(self.seed, "seed")
        for name in ("temperature", "alpha", "fpr"):
            check_number(getattr(self, name), name)
        if self.prior is not None:
            check_list(self.prior, "prior")
        if not math.isfinite(self.temperature):
            raise UserError(f"temperature must be a finite number, such as -10000, got {self.temperature}", "EPS-A171")
        if self.prior is not None and not (
            len(self.prior) == self.candidates and min(self.prior) > 0 and abs(sum(self.prior) - 1) <= 1e-9
        ):
            raise UserError(
                f"prior must be {self.candidates} positive numbers, one per candidate, that sum to 1, got {self.prior}",
                "EPS-A172",
            )
        if not 0 <= self.fpr < 1:
            raise UserError(f"fpr must be in [0, 1), got {self.fpr}", "EPS-A173")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}", "EPS-A174")

    @property
    def k(self) -> int:
        """The number of candidates, for callers that allow neither "all" nor a prior. Raises UserError for these."""
        if self.prior is not None:
            raise UserError("a prior applies only if the audit itself rewrites the texts; leave it out", "EPS-A175")
        if self.candidates == "all":
            raise UserError(
                'candidates "all" applies only if the audit itself rewrites the texts; set a number (k)', "EPS-A176"
            )
        return self.candidates


STANDARD = Design()


def check_trials(trials: int) -> None:
    """Raise UserError for an invalid number of trials."""
    value: object = trials
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UserError(f"trials must be a whole number, got {value!r}; the default is 2,000", "EPS-A177")
    if trials < 1:
        raise UserError(f"trials must be >= 1, got {trials}", "EPS-A178")
    if trials > MOST_TRIALS:
        raise UserError(f"trials must be at most {MOST_TRIALS:,}, got {trials:,}; the default is 2,000", "EPS-A179")


def check_design(design: Design) -> None:
    """Raise UserError for an invalid design."""
    value: object = design
    if not isinstance(value, Design):
        raise UserError(
            f"design must be a Design, got {described(value)}; pass epsilometer.Design(temperature=0)", "EPS-A180"
        )


def as_installed(design: Design) -> Design:
    """Return the design. If it needs a missing sentence encoder, set temperature 0, with a note on standard error.

    Raises UserError for an invalid design.
    """
    check_design(design)
    if not design.temperature or design.candidates == "all" or installed("models"):
        return design
    note(
        "candidate sets are drawn uniformly (temperature 0), since sentence embeddings are not installed; for the "
        "least similar texts: pip install 'epsilometer[models]'"
    )
    return replace(design, temperature=0.0)
