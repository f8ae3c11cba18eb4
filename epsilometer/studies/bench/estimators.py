"""Estimators on the bench: functions from samples to a lower bound. Losses are in nats.

A bound may be above the truth with probability at most ERROR. Our estimators return the lower bound of a two-sided
interval, which errs on each side with probability alpha / 2. So they are called with alpha = 2 ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.auditing.estimation.coins import unit_loss
from epsilometer.auditing.estimation.successes import estimate, loss_by_rates
from epsilometer.core.component import find
from epsilometer.core.errors import UserError
from epsilometer.studies.bench.samples import Samples

ERROR = 0.01

Bound = Callable[[Samples, float, float], float]
"""Takes samples, the probability with which the bound may be above the truth, and delta; returns a lower bound."""


@dataclass(frozen=True)
class Estimator:
    """An estimator on the bench.

    average: True if it bounds the loss that follows from the best adversary's success rate; False if it bounds the
             pure loss.
    most:    the largest number of samples it runs on, None for any number. The one-run audit needs a limit, because
             with a delta its time grows with the square of the number of samples.
    """

    name: str
    bound: Bound
    average: bool = False
    most: int | None = None


def success_rate(samples: Samples, error: float, delta: float) -> float:
    """Return the lower bound `loss` of an audit, from the share of right guesses (TeDA, eq. 11)."""
    right = samples.right
    return estimate(int(right.sum()), len(right), alpha=2 * error, delta=delta).loss


def rates(samples: Samples, error: float, delta: float) -> float:
    """Return a lower bound from the true and false positive rates of all guesses (Arcolezi and Gambs 2024)."""
    positives, true = int(samples.first.sum()), int((samples.guess & samples.first).sum())
    false = int(samples.guess.sum()) - true
    return loss_by_rates(true, positives, false, len(samples.first) - positives, alpha=2 * error, delta=delta)


def abstention(samples: Samples, error: float, delta: float) -> float:
    """Return the lower bound `worst_output` of an audit, from the most confident guesses."""
    return worst_output(samples.right, np.abs(samples.loss), 2, 2 * error, delta=delta)


def one_run(samples: Samples, error: float, delta: float) -> float:
    """Return the lower bound of the one-run audit, which treats each sample's input as a coin of a single run."""
    return unit_loss(samples.right, np.abs(samples.loss), 2 * error, delta=delta).loss


OURS = (
    Estimator("success rate", success_rate, average=True),
    Estimator("rates", rates),
    Estimator("abstention", abstention),
    Estimator("one run", one_run, most=10_000),
)


def own(file: Path) -> Estimator:
    """Return a user's estimator: the function `bound(samples, error, delta)` in a Python file.

    Raises UserError if the file or function does not exist.
    """
    if not file.is_file():
        raise UserError(
            f"file {str(file)!r} not found; give a Python file with a function bound(samples, error, delta)", "EPS-A191"
        )
    return Estimator(file.stem, find("estimators", str(file), "bound"))
