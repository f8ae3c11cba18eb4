"""What the exact loss says of a mechanism on the bench: no samples, a figure and its rounding error."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.exact_loss.grid import unit_losses
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.auditing.truth.known import Known

_WIDTH = 1e-4  # of the guess loss, in nats: what the rounding of all units together may come to


@dataclass(frozen=True)
class ExactFigure:
    """low, high: the guess loss of the pair lies between them; pure: its pure loss; seconds: for all of these."""

    low: float
    high: float
    pure: float
    seconds: float


def exact_figure(known: Known) -> ExactFigure:
    """By the product of the laws of independent parts of the output, or of the one law where there are none."""
    law = known.law()
    start = time.perf_counter()
    parts = law.parts or (law,)
    step = 4 * _WIDTH / len(parts)
    with np.errstate(divide="ignore"):
        units = [unit_losses(np.log(part.first), np.log(part.other), step) for part in parts]
    pair = Product(units)
    log_error = pair.log_error()
    low, high = (loss_at(1 - math.exp(end), 2, known.delta) for end in (log_error.high, log_error.low))
    pure = max(pair.pure_loss, pair.reversed.pure_loss, law.limit)
    return ExactFigure(low, high, pure, time.perf_counter() - start)
