"""The nominal epsilon at which an exact figure meets a target. Nothing is rewritten.

The figure (a loss in nats, or a delta) is computed at any epsilon as a bracket that contains it. Below the answer's
`low` it is less than the target and above `high` it is more, both beyond its error, provided that it rises with
epsilon. Points are chosen on the power law through the ends of the interval; every third halves it, whatever the curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE, UNDECIDED

WIDTH = 1.01  # high / low of the interval to stop at, where nobody asks for another

Figure = Callable[[float], tuple[float, float]]
"""epsilon -> (low, high), what the figure lies between; either may be infinite."""

Watch = Callable[[float, float], None]
"""(low, high): the epsilon sought is known to lie in between, if it lies in the range at all."""


@dataclass(frozen=True)
class Met:
    """low, high: the epsilon at the target lies in between; best: where it is expected, None where there is none.

    status: FOUND, UNDECIDED (the figure's error leaves a wider interval than asked for), OUTSIDE (the target is not met
    between the smallest and the largest epsilon, so that `low` is 0 or `high` infinite) or FALLING (the figure is above
    the target at the smallest epsilon and below it at the largest). figures: what was computed, by epsilon.
    """

    status: str
    low: float
    high: float
    best: float | None
    figures: Mapping[float, tuple[float, float]] = field(repr=False)


def meet(figure: Figure, target: float, low: float, high: float, *, width: float = WIDTH, watch: Watch) -> Met:
    """Returns the epsilon between low and high, 0 < low < high, at which the figure meets a target > 0.

    width: high / low of the interval to stop at, > 1. watch: called after every figure.
    """
    figures = {low: figure(low), high: figure(high)}
    first, last = _side(figures[low], target), _side(figures[high], target)
    if first > 0:
        return Met(FALLING if last < 0 else OUTSIDE, 0.0, low, None, figures=figures)
    if last < 0:
        return Met(OUTSIDE, high, math.inf, None, figures=figures)
    below, above = low, high
    unsure = [epsilon for epsilon, side in ((low, first), (high, last)) if side == 0]  # the figure's error decides
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
    status = FOUND if above / below <= width else UNDECIDED
    best = _expected(figures, target, below, above)
    return Met(status, below, above, best, figures=dict(sorted(figures.items())))


def _side(value: tuple[float, float], target: float) -> int:
    """-1 below the target, 1 above it, 0 where the error leaves that open."""
    return -1 if value[1] < target else int(value[0] > target)


def _next(
    figures: Mapping[float, tuple[float, float]], target: float, below: float, above: float, *, width: float
) -> float:
    """A little beyond where the target is expected, so that the farther end comes close to it."""
    if len(figures) % 3 == 1:
        return math.sqrt(below * above)
    expected, step = _expected(figures, target, below, above), width ** (1 / 3)
    if above / expected > expected / below:
        return min(expected * step, math.sqrt(expected * above))
    return max(expected / step, math.sqrt(expected * below))


def _expected(figures: Mapping[float, tuple[float, float]], target: float, below: float, above: float) -> float:
    """The epsilon of the target on the power law through both ends; their geometric mean where there is none."""
    ends = [sum(figures[epsilon]) / 2 for epsilon in (below, above)]
    if not 0 < ends[0] < target < ends[1] < math.inf:
        return math.sqrt(below * above)
    share = math.log(target / ends[0]) / math.log(ends[1] / ends[0])
    return below * (above / below) ** share
