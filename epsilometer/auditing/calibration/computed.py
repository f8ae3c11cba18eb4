"""The nominal epsilon at which a figure meets a target, if bounds of the figure can be computed at any epsilon.

The two bounds of the figure (a loss in nats, or a delta) form a bracket. The search returns an interval of epsilons,
from `low` to `high`. The bracket is below the target at `low` and above the target at `high`. If the figure rises with
epsilon, it meets the target in between. The figure is computed at both ends of the range first. If the figure falls
through the target between these ends, the same search runs over 1 / epsilon. Then the bracket is above the target at
`low` and below the target at `high`. The power law through both ends of the interval proposes the next epsilon, which
is moved a little towards the farther end. Every third epsilon instead halves the interval (on a log scale).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE, UNDECIDED

FAR = 1e6  # `further` goes beyond a range by this factor; figures computed from a law are constant there
WIDTH = 1.01  # default ratio high / low of the final interval

Figure = Callable[[float], tuple[float, float]]
"""Maps epsilon to (low, high), a bracket of the figure; either bound may be infinite."""

Watch = Callable[[float, float], None]
"""Takes low and high, the ends of an interval that contains the sought epsilon if the range contains it."""


@dataclass(frozen=True)
class Met:
    """The result of a search.

    low, high: the ends of an interval that contains the epsilon at the target. best: an estimate of this epsilon, or
    None.

    status: FOUND; UNDECIDED (some brackets contain the target, so the interval is wider than requested, or the target
    may be met beyond an end of the range); OUTSIDE (the target is not met between the smallest and the largest epsilon,
    and `low` is 0 or `high` infinite); or FALLING (the figure is above the target at the smallest epsilon and below the
    target at the largest). figures: all computed figures, by epsilon.
    """

    status: str
    low: float
    high: float
    best: float | None
    figures: Mapping[float, tuple[float, float]] = field(repr=False)


def meet(figure: Figure, target: float, low: float, high: float, *, width: float = WIDTH, watch: Watch) -> Met:
    """Return the epsilon between low and high, 0 < low < high, at which the figure meets a target > 0.

    width: the ratio high / low at which the search stops, > 1. watch: called after every figure.
    """
    ends = {low: figure(low), high: figure(high)}
    first, last = _side(ends[low], target), _side(ends[high], target)
    if first > 0 > last:
        turned = _between(
            {1 / epsilon: value for epsilon, value in ends.items()},
            lambda reversed_epsilon: figure(1 / reversed_epsilon),
            target,
            width=width,
            watch=lambda left, right: watch(1 / right, 1 / left),
        )
        figures = dict(sorted((1 / point, value) for point, value in turned.figures.items()))
        return Met(FALLING, 1 / turned.high, 1 / turned.low, turned.best and 1 / turned.best, figures=figures)
    if first > 0:
        return Met(OUTSIDE, 0.0, low, None, figures=ends)
    if last < 0:
        return Met(OUTSIDE, high, math.inf, None, figures=ends)
    return _between(ends, figure, target, width=width, watch=watch)


def further(met: Met) -> float | None:
    """Return an epsilon far beyond the range, where an OUTSIDE search would continue; None for another status."""
    if met.status != OUTSIDE:
        return None
    return max(met.figures) * FAR if (met.low == 0) == _falls(met) else min(met.figures) / FAR


def advice(met: Met, what: str, *ends: str, still: str | None = None) -> str:
    """Return the reason why a search ended as OUTSIDE or FALLING, and a remedy.

    what: the name of the figure. ends: the figures at both ends of the range, in words. still: the figure at the
    epsilon `further(met)`, in words, if the figure misses the target even there; else None.
    """
    falls = _falls(met)
    low, high = (f"{what} is {end}" for end in ends)
    if met.status == FALLING:
        return f"{low} and falls to {ends[1]}; it exceeds the target at epsilons below the interval, not above it"
    if still is not None:
        beyond = f"far beyond this range it is {still} under the stated law, so no epsilon meets the target"
    elif (met.low == 0) == falls:
        beyond = "raise `high` (--high) to search beyond"
    else:
        beyond = "lower `low` (--low) to search below"
    if falls:
        return f"{low} and falls to {ends[1]}; {beyond}"
    return f"{low if met.low == 0 else high}; {beyond}"


def _falls(met: Met) -> bool:
    """Return True if the figure is smaller at the largest epsilon than at the smallest."""
    return met.figures[min(met.figures)][0] > met.figures[max(met.figures)][1]


def _between(
    ends: Mapping[float, tuple[float, float]], figure: Figure, target: float, *, width: float, watch: Watch
) -> Met:
    """Search between two points.

    At the lower point the bracket is below the target or contains it. At the upper point the bracket is above the
    target or contains it.
    """
    figures = dict(ends)
    below, above = min(ends), max(ends)
    unsure = [point for point in (below, above) if _side(ends[point], target) == 0]  # their brackets contain the target
    while above / below > width:
        watch(below, above)
        if unsure:
            left, right = min(unsure) / below, above / max(unsure)
            if left * right <= width:
                break
            point = math.sqrt(below * min(unsure) if left > right else max(unsure) * above)
        else:
            point = _next(figures, target, below, above, width=width)
        figures[point] = figure(point)
        side = _side(figures[point], target)
        if side == 0:
            unsure.append(point)
        else:
            below, above = (point, above) if side < 0 else (below, point)
            unsure = [other for other in unsure if below <= other <= above]
    beyond = {below, above} & {min(ends), max(ends)} & {*unsure}  # the target may be met beyond the range
    status = FOUND if above / below <= width and not beyond else UNDECIDED
    best = _expected(figures, target, below, above)
    return Met(status, below, above, best, figures=dict(sorted(figures.items())))


def _side(value: tuple[float, float], target: float) -> int:
    """Return -1 for a bracket below the target, 1 for a bracket above it, 0 for a bracket that contains it."""
    return -1 if value[1] < target else int(value[0] > target)


def _next(
    figures: Mapping[float, tuple[float, float]], target: float, below: float, above: float, *, width: float
) -> float:
    """Return the next epsilon: the expected answer, moved a little towards the farther end of the interval."""
    if len(figures) % 3 == 1:
        return math.sqrt(below * above)
    expected, step = _expected(figures, target, below, above), width ** (1 / 3)
    if above / expected > expected / below:
        return min(expected * step, math.sqrt(expected * above))
    return max(expected / step, math.sqrt(expected * below))


def _expected(figures: Mapping[float, tuple[float, float]], target: float, below: float, above: float) -> float:
    """Return the epsilon at which the power law through both ends meets the target.

    Returns the geometric mean of the ends if no power law through both ends meets the target between them.
    """
    ends = [sum(figures[epsilon]) / 2 for epsilon in (below, above)]
    if not 0 < ends[0] < target < ends[1] < math.inf:
        return math.sqrt(below * above)
    share = math.log(target / ends[0]) / math.log(ends[1] / ends[0])
    return below * (above / below) ** share
