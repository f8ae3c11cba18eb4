"""The nominal epsilon at which an attack's empirical loss meets a target, with an interval. Losses are in nats.

The target loss l is a target success probability p* = e^l / (e^l + k - 1) (TeDA eq. 10 solved for the probability), and
the probability p(epsilon) that the adversary names the source is taken to grow with epsilon. Fresh trials are drawn at
epsilons of a fixed grid until it is known at which of them p lies below p*, and at which above; the answer is the
interval between the two, and the search spends its trials next to where p* is expected.

At each grid point p is compared with p* by a test martingale, so that the comparison may be looked at after every
batch and stopped at any time (Ville 1939; Robbins 1970). Against p <= p* the wealth after s successes in n trials is

    E(s, n) = integral over (p*, 1) of (p / p*)^s ((1 - p) / (1 - p*))^(n - s) dG(p),

a likelihood ratio averaged over a prior G on the alternative (a Beta distribution with its mode at p*, worth 100
trials, cut off at p*). Its expectation is at most 1 whenever p <= p*, so it ever exceeds 1 / a with probability at most
a. Against p >= p* the same on (0, p*). The j-th grid point visited may err with probability alpha / (j (j + 1)), so
that all together err with at most alpha, however many are visited and whenever the search stops. (Where p is p*
itself neither answer is wrong: the point is then an end of the interval, and the interval holds its ends.)

Assumption beyond the audit's: monotone p. What the interval covers is the epsilon at which p passes p*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import betainc, betaln, logit

from epsilometer.errors import UserError
from epsilometer.estimation import success_bound

_PRIOR = 100  # trials that the prior around p* is worth
_SPAN = 8  # steps of the grid in an interval as wide as asked for
_LATE = 0.75  # of the budget: from then on an end that is still open is sought far from the crossing

BELOW, ABOVE, OUTSIDE, FOUND, UNDECIDED = "below", "above", "outside", "found", "undecided"

Measure = Callable[[float, int, int, Sequence[int]], Sequence[int]]
"""(epsilon, first, count, attacks) -> the successes in fresh trials number first, ..., first + count - 1.

attacks: the numbers of those that are asked for; a success count for each of them.
"""

Watch = Callable[[int, float, float], None]
"""(trials spent, low, high): the epsilon sought is known to lie in between, if it lies in the range at all."""


def unwatched(spent: int, low: float, high: float) -> None:
    """Shows nothing."""


@dataclass
class Tally:
    """What one attack did at one epsilon, and the side of p* that its success probability lies on, once known."""

    successes: int = 0
    trials: int = 0
    side: str | None = None


@dataclass
class Point:
    """What is known at one epsilon: an attack that is known to lie below p* is not asked again. share: of alpha."""

    epsilon: float
    attacks: Sequence[Tally]
    share: float

    @property
    def trials(self) -> int:
        """Trials so far."""
        return max(tally.trials for tally in self.attacks)

    @property
    def rate(self) -> float:
        """Of successes, of the attack with the highest."""
        return max(tally.successes / tally.trials for tally in self.attacks)

    @property
    def side(self) -> str | None:
        """Above p* as soon as one attack is, below when all are."""
        sides = {tally.side for tally in self.attacks}
        return ABOVE if ABOVE in sides else BELOW if sides == {BELOW} else None


@dataclass(frozen=True)
class Calibrated:
    """low, high: epsilon at the target lies in between, at confidence 1 - alpha; best: where it is expected.

    status: "found" (the interval is as narrow as asked for), "undecided" (the trials ran out first), or "outside" (the
    target is not reached between the smallest and the largest epsilon; `low` or `high` is then infinite or 0).
    trials: rewrites spent. points: what was measured, by epsilon.
    """

    target: float
    status: str
    low: float
    high: float
    best: float
    trials: int
    points: Sequence[Point] = field(repr=False)


def calibrate(
    measure: Measure,
    target: float,
    low: float,
    high: float,
    attacks: int = 1,
    candidates: int = 2,
    width: float = 1.25,
    alpha: float = 0.01,
    batch: int = 200,
    budget: int = 50_000,
    watch: Watch = unwatched,
) -> Calibrated:
    """Search between the epsilons `low` and `high` for the one whose loss is `target`.

    The loss is that of the strongest of the attacks: p is above p* as soon as one of them is (each tested at its part
    of alpha), below when all of them are. width: high / low to stop at. batch: trials at a time, at least. budget: all
    trials together. watch: called after every batch.
    Raises UserError for a target or range outside the rules, before anything is measured.
    """
    if not (target > 0 and math.isfinite(target)):
        raise UserError(f"the target loss must be a finite number > 0, got {target}")
    if not 0 < low < high < math.inf:
        raise UserError(f"the range of epsilon must be 0 < low < high, got {low:g} to {high:g}")
    if not width > 1:
        raise UserError(f"width, the ratio of the interval's ends, must be > 1, got {width}")
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be in (0, 1), got {alpha}")
    wanted = success_bound(target, candidates)
    steps = max(_SPAN, math.ceil(_SPAN * math.log(high / low) / math.log(width)))
    grid = np.geomspace(low, high, steps + 1)
    points: dict[int, Point] = {}
    spent = 0
    while spent < budget:
        below, above = _bracket(points, steps)
        if _is_found(below, above, steps) or above == 0 or below == steps:
            break
        if spent >= _LATE * budget and (below < 0 or above > steps):
            place = _far(points, above, steps)
        else:
            place = _next(points, below, above, wanted, steps)
        if place not in points:
            visited = len(points) + 1
            share = alpha / (visited * (visited + 1))
            points[place] = Point(float(grid[place]), [Tally() for _ in range(attacks)], share)
        point = points[place]
        count = min(max(batch, point.trials // 8), budget - spent)
        open_attacks = [i for i, tally in enumerate(point.attacks) if tally.side is None]
        found = measure(point.epsilon, point.trials, count, open_attacks)
        spent += count
        for i, successes in zip(open_attacks, found, strict=True):
            tally = point.attacks[i]
            tally.successes += successes
            tally.trials += count
            tally.side = side(tally.successes, tally.trials, wanted, point.share, attacks)
        below, above = _bracket(points, steps)
        watch(spent, float(grid[max(below, 0)]), float(grid[min(above, steps)]))
    below, above = _bracket(points, steps)
    ends = (float(grid[below]) if below >= 0 else 0.0, float(grid[above]) if above <= steps else math.inf)
    outside = above == 0 or below == steps
    status = OUTSIDE if outside else FOUND if _is_found(below, above, steps) else UNDECIDED
    expected = float(np.exp(np.interp(_crossing(points, wanted, steps), np.arange(steps + 1), np.log(grid))))
    best = min(max(expected, ends[0]), ends[1])
    return Calibrated(target, status, *ends, best, spent, sorted(points.values(), key=lambda p: p.epsilon))


def side(successes: int, trials: int, wanted: float, alpha: float, attacks: int = 1) -> str | None:
    """On which side of p* the success probability of one of so many attacks lies; None while it is not known.

    Valid whenever it is asked, over all times together. One attack is enough to be above, so they share alpha there:
    an attack below p* is called above with probability at most alpha / attacks. All of them must be below, the
    strongest among them: an attack above p* is called below with probability at most alpha.
    """
    limit = math.log(1 / alpha)
    if log_wealth(successes, trials, wanted, above=True) > limit + math.log(attacks):
        return ABOVE
    if log_wealth(successes, trials, wanted, above=False) > limit:
        return BELOW
    return None


def log_wealth(successes: int, trials: int, wanted: float, above: bool) -> float:
    """ln E(s, n): the evidence that p > p* (`above`), else that p < p*; 0 without trials."""
    failures = trials - successes
    a, b = _PRIOR * wanted + 1, _PRIOR * (1 - wanted) + 1
    ratio = _log_part(a + successes, b + failures, wanted, above) - _log_part(a, b, wanted, above)
    return float(ratio - successes * math.log(wanted) - failures * math.log1p(-wanted))


def _log_part(a: float, b: float, border: float, above: bool) -> float:
    """ln of the integral of p^(a - 1) (1 - p)^(b - 1) above the border, or below it."""
    share = betainc(b, a, 1 - border) if above else betainc(a, b, border)
    return float(betaln(a, b) + np.log(share)) if share > 0 else -math.inf


def _bracket(points: dict[int, Point], steps: int) -> tuple[int, int]:
    """The last place known to lie below and the first known to lie above (-1 and steps + 1 where there is none)."""
    below = max((i for i, p in points.items() if p.side == BELOW), default=-1)
    above = min((i for i, p in points.items() if p.side == ABOVE), default=steps + 1)
    return below, above


def _far(points: dict[int, Point], above: int, steps: int) -> int:
    """Half the way from what was tried in vain to the end of the range: a wide interval is better than an open one."""
    return (max(points) + steps + 1) // 2 if above > steps else min(points) // 2


def _is_found(below: int, above: int, steps: int) -> bool:
    return below >= 0 and above <= steps and above - below <= _SPAN


def _crossing(points: dict[int, Point], wanted: float, steps: int) -> float:
    """Where the isotonic fit to what was measured passes p*, as a place of the grid, interpolated."""
    if not points:
        return steps / 2
    places = np.array(sorted(points))
    trials = np.array([points[i].trials for i in places])
    rates = np.array([points[i].rate for i in places])
    fit = isotonic_regression(rates, weights=trials)
    # A run of places that the fit cannot tell apart stands where most of its trials were drawn.
    blocks = fit.blocks[:-1]
    at: NDArray[np.float64] = np.add.reduceat(places * trials, blocks) / np.add.reduceat(trials, blocks)
    level = logit(np.clip(fit.x[blocks], 1e-4, 1 - 1e-4))  # odds grow by about the same factor a step
    sought = float(logit(wanted))
    if level[-1] < sought:  # beyond all that was measured
        return (at[-1] + steps) / 2 if steps - at[-1] > _SPAN else float(steps)
    if level[0] > sought:
        return at[0] / 2 if at[0] > _SPAN else 0.0
    return float(np.interp(sought, level, at))


def _next(points: dict[int, Point], below: int, above: int, wanted: float, steps: int) -> int:
    """Where to measure next: half an interval's width below or above the expected crossing.

    Nearer to it a trial tells little, farther from it the interval would be too wide. An end that is known already
    fixes where the other may lie at most.
    """
    crossing, half = _crossing(points, wanted, steps), _SPAN / 2
    left, right = round(crossing - half), round(crossing + half)
    left_known = below >= 0 and crossing - below <= half + 1
    right_known = above <= steps and above - crossing <= half + 1
    if left_known:
        right = min(right, below + _SPAN)
    if right_known:
        left = max(left, above - _SPAN)
    wished = ([] if left_known else [left]) + ([] if right_known else [right])
    places = []
    for place in wished or [left, right]:
        place = min(max(place, 0), steps)
        # A place nearby that has trials already is as good.
        near = [i for i, p in points.items() if p.side is None and abs(i - place) <= 1]
        places.append(max(near, key=lambda i: points[i].trials, default=place))
    open_places = [i for i in places if below < i < above]
    if not open_places:
        return min(max((below + above) // 2, 0), steps)
    best = min(open_places, key=lambda i: points[i].trials if i in points else 0)
    # What says where the crossing is must not rest on few trials while many are spent elsewhere.
    spent = points[best].trials if best in points else 0
    doubtful = [i for i, p in points.items() if below < i < above and 8 * p.trials < spent]
    return min(doubtful, key=lambda i: abs(i - crossing), default=best)
