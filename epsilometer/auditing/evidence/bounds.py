"""Bounds from evidence at a stated error, and the status of a limit by these bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.estimation.tail import lower_bounds, upper_bounds
from epsilometer.auditing.evidence.evidence import AtLeast, Computed, Confident, Covers, Data, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status


def bounds(data: Data, scale: Scale, below: float, above: float) -> tuple[float, float]:
    """Return a lower and an upper bound of a figure, in the scale's unit.

    below, above: the error probabilities allowed for the lower and the upper bound. The number of trials must have been
    fixed beforehand. A computation whose error is larger than the allowed one has the lower bound 0 or the upper bound
    infinity. Trials of one of several cases (`AtLeast`), such as one of several pairs of texts, have the upper bound
    infinity.
    """
    if isinstance(data, Computed):
        return data.low if data.error <= below else 0.0, data.high if data.error <= above else math.inf
    if isinstance(data, Confident):
        return _tail_bounds(data, scale.candidates, below, above)
    if isinstance(data, AtLeast):
        return scale.figure(clopper_pearson(data.right, data.n, 2 * below)[0]), math.inf
    if isinstance(data, Hits):
        low, high = clopper_pearson(data.right, data.n, 2 * below)[0], clopper_pearson(data.right, data.n, 2 * above)[1]
    else:
        low, high = interval(data.shares, 2 * below, fixed=True)[0], interval(data.shares, 2 * above, fixed=True)[1]
    return scale.figure(low), scale.figure(high)


def status(evidence: Evidence, limit: Limit, below: float, above: float) -> Status:
    """Return the status of a limit, from evidence whose number of trials was fixed beforehand.

    below, above: the error probabilities allowed for BEYOND and for a pass.
    """
    if limit.at_least:
        low, high = bounds(evidence.data, evidence.scale, above, below)
        exceeded, passes = high < limit.allowed, low >= limit.allowed
    else:
        low, high = bounds(evidence.data, evidence.scale, below, above)
        exceeded, passes = low > limit.allowed, high <= limit.allowed
    if exceeded:
        return Status.BEYOND
    return passed(evidence) if passes else Status.OPEN


def _tail_bounds(data: Confident, candidates: int, below: float, above: float) -> tuple[float, float]:
    """Return a lower bound of delta at 4 nats by one threshold, and an upper bound over a grid of thresholds."""
    sure, between = np.array([data.beyond]), np.array(data.between)
    low = lower_bounds(sure[:, 0], sure[:, 1], data.n, candidates, error=below)
    high = upper_bounds(between[:, 0], between[:, 1], data.n, candidates, error=above)
    return max(0.0, float(low.max())), min(1.0, max(0.0, float(high.max())))


def decisive(pieces: Sequence[Evidence], limit: Limit, below: float, above: float) -> tuple[Status, Evidence]:
    """Return the status of a limit from several pieces of evidence about one figure, and the piece that decides.

    below, above: the errors of each piece. A piece with the status BEYOND always decides, because a contradicting upper
    bound assumes a law or a claim. Next come WITHIN (an upper bound that covers every adversary), NOT_EXCEEDED, and
    OPEN.
    """
    statuses = [(status(piece, limit, below, above), piece) for piece in pieces]
    order = (Status.BEYOND, Status.WITHIN, Status.NOT_EXCEEDED, Status.OPEN)
    return min(statuses, key=lambda pair: order.index(pair[0]))


def passed(evidence: Evidence) -> Status:
    """Return the status of a limit that a bound from this evidence proves to be kept."""
    return Status.WITHIN if evidence.covers is Covers.EVERYONE else Status.NOT_EXCEEDED
