"""The exact loss of a mechanism on the bench: a figure with its rounding error, without samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.exact_loss.grid import unit_losses
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.studies.bench.known import KnownMechanism

_WIDTH = 1e-4  # rounding error allowed in the guess loss, in nats, for all units together


@dataclass(frozen=True)
class ExactFigure:
    """The exact loss of a pair. low, high: bounds on its guess loss; pure: its pure loss."""

    low: float
    high: float
    pure: float


def exact_figure(mechanism: KnownMechanism) -> ExactFigure:
    """Return the exact loss by the product of the laws of the output's independent parts, or by its one law."""
    law = mechanism.law()
    parts = law.parts or (law,)
    step = 4 * _WIDTH / len(parts)
    with np.errstate(divide="ignore"):
        units = [unit_losses(np.log(part.first), np.log(part.other), step) for part in parts]
    pair = Product(units)
    log_error = pair.log_error()
    low, high = (loss_at(1 - math.exp(end), 2, mechanism.delta) for end in (log_error.high, log_error.low))
    pure = max(pair.pure_loss, pair.reversed.pure_loss, law.limit)
    return ExactFigure(low, high, pure)
