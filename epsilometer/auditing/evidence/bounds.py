"""Bounds from evidence at a stated error, and the status of a limit that they give."""

from __future__ import annotations

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.evidence.evidence import Computed, Confident, Covers, Evidence, Hits, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status


def bounds(data: Hits | Means | Computed, scale: Scale, below: float, above: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the figure, in the scale's unit.

    below, above: the probabilities with which they may be wrong. The number of trials was fixed beforehand. Raises
    ValueError for a computation that is wrong more often.
    """
    if isinstance(data, Computed):
        if data.error > min(below, above):
            raise ValueError(f"bounds are wrong with probability {data.error:g}, asked for {min(below, above):g}")
        return data.low, data.high
    if isinstance(data, Hits):
        low, high = clopper_pearson(data.right, data.n, 2 * below)[0], clopper_pearson(data.right, data.n, 2 * above)[1]
    else:
        low, high = interval(data.shares, 2 * below, fixed=True)[0], interval(data.shares, 2 * above, fixed=True)[1]
    return scale.figure(low), scale.figure(high)


def status(evidence: Evidence, limit: Limit, below: float, above: float) -> Status:
    """Return the status of a limit by evidence of a number of trials that was fixed beforehand.

    below, above: the probabilities with which BEYOND and a pass may be wrong.
    """
    data = evidence.data
    assert not isinstance(data, Confident), "confident guesses are judged by betting"
    low, high = bounds(data, evidence.scale, below, above)
    if low > limit.allowed:
        return Status.BEYOND
    return passed(evidence) if high <= limit.allowed else Status.OPEN


def passed(evidence: Evidence) -> Status:
    """Return the status of a limit that an upper bound shows kept."""
    return Status.WITHIN if evidence.covers is Covers.EVERYONE else Status.NOT_EXCEEDED
