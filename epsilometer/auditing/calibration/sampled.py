"""The nominal epsilon at which an attack's empirical loss meets a target, with an interval. Losses are in nats.

The target loss l corresponds to a target success probability p* = e^l / (e^l + k - 1) (TeDA eq. 10 solved for the
probability). Delta is 0 here for every claim, because a large delta would allow any leak. The search is for c, the
largest epsilon below which no success probability p(epsilon) exceeds p*. Assumption: above c, p is at least p*. Fresh
trials are drawn at epsilons of a fixed grid, and the answer is the interval between two of these epsilons.

**Evidence by betting** (Ville 1939; Waudby-Smith and Ramdas 2023). A *place* is the index of an epsilon in the grid,
and a *cell* is the interval between two neighbouring epsilons. For each cell a bettor tests the hypothesis "c lies in
this cell". Under this hypothesis, p <= p* at the epsilons before the cell, and p >= p* at the epsilons after it. A
batch of s successes in n trials at an epsilon before the cell multiplies the bettor's wealth by

    sum over q > p* of w(q) (q / p*)^s ((1 - q) / (1 - p*))^(n - s),

where each q is a success probability to bet on. At an epsilon after the cell the sum is over q < p*. The weights w of
all q sum to 1, and the weight of each omitted q is kept as wealth that is not bet. The weights may depend on all
earlier batches. Under the hypothesis each factor has an expectation of at most 1, for any earlier batches and any
choice of the epsilon. So the wealth against the true cell ever exceeds 1 / alpha with probability at most alpha
(Ville's inequality). The cells against which no wealth has exceeded 1 / alpha are a confidence set that is valid at all
times together. So alpha is not divided among epsilons or batches, and trials at one epsilon count for all cells. If all
cells are refuted, the assumption is refuted too.

**Posteriors instead of hits.** A trial's factor is 1 + m (x - p*), with the stake m = (q - p*) / (p* (1 - p*)). Here x
is 1 for a success and 0 otherwise. If the mechanism's law is known, x is instead the posterior of the guess
(`posteriors`). A posterior lies in [0, 1] and has the same mean as the hit, so the argument above still applies. The
posterior varies less than the hit. One posterior is as informative as r = p* (1 - p*) / (variance of x in earlier
batches) coins (trials scored 0 or 1). So the stake is multiplied by r, up to 0.9 of the largest stake that cannot make
the wealth negative. Bets on posteriors rely on the stated law. The hits of the same trials test the law after every
batch (`posteriors.LawTest`), with a tenth of alpha. If the hits refute the law, the search starts again with the hits
of all batches so far, and its result says so (`departs`).

**The bets** follow a posterior over curves loss(epsilon) = l (epsilon / c)^b, with any c and with b from 1/4 to 6. A
tenth of each wealth bets on the success rate at one epsilon alone, without a curve. A poor model costs trials, not
validity. With several attacks, p is the rate of the strongest attack. If a cell lies after an epsilon, all attacks'
rates at that epsilon are at most p* under the hypothesis, so each attack bets an equal part of the wealth. If the cell
lies before the epsilon, at least one rate is p* or more, so only the smallest of the attacks' wealths counts.

**A loss that falls** from above the target at the smallest epsilon to below the target at a larger epsilon causes a
second search, on fresh trials between these two epsilons. This search is for the c above which no success probability
exceeds p*.

**The next epsilon.** The first two epsilons are the ends of the range. If two epsilons then contradict a rising curve,
the next batch is at the one of these two epsilons whose side of p* is less clear. Otherwise the next three batches are
at three epsilons between the ends. After these batches, the posterior predicts which interval of the requested width is
settled with the fewest trials, and the next epsilon is an end of that interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, rel_entr

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.posteriors import LawTest
from epsilometer.auditing.estimation.successes import loss_at, success_bound
from epsilometer.auditing.evidence.status import SearchStatus
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.core.errors import UserError
from epsilometer.core.values import check_number, check_whole

_SPAN = 8  # grid steps in an interval of the requested width
_EXPONENTS = np.array([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6])  # b
_WINDOW = 6.0  # in intervals of the requested width; trials at this distance from the crossing have weight e^-1/2
_PARTS = np.log([0.9, 0.1])  # shares of the wealth bet on curves, and on each epsilon alone
_ALONE = 10  # bets on one epsilon alone: weight of the prior guess p*, in trials
_CLEAR = 2.0  # a place is clear if its ln likelihood ratio against p* is at least this (two standard errors)
_BATCH = 200  # fewest trials in a batch; half as many with posteriors
_LOOK = 30  # number of posteriors in the first batch at a place; they show its side of p*
_SCAN = (0.0, 1.0, 0.5, 0.25, 0.75)  # first epsilons to try, as positions in the range
_MOST = 0.9  # largest stake on a posterior, as a share of the stake that could lose all wealth
_DOUBT = 0.1  # share of alpha for the test of the law

FOUND, UNDECIDED, OUTSIDE, FALLING, NOT_MONOTONE = SearchStatus
HITS, POSTERIORS = "hits", "posteriors"
ATTRIBUTE = "attribute"  # measure: the loss of guessing an attribute instead of the source text


@dataclass(frozen=True)
class Batch:
    """An attack's guesses in n trials: the number of successes, and their posteriors [n] if the law is known."""

    successes: int
    posteriors: NDArray[np.float64] | None = None


Measure = Callable[[float, int, int, Sequence[int]], Sequence[Batch]]
"""Maps (epsilon, first, count, attacks) to guesses in the fresh trials first, ..., first + count - 1.

attacks: the indices of the requested attacks; the result has a batch for each of them.
"""

_Values = tuple[NDArray[np.float64], NDArray[np.integer]]  # distinct numbers in [0, 1], and their counts

Watch = Callable[[int, float, float], None]
"""Takes (trials spent, low, high): an interval that contains the sought epsilon, if the range contains it at all."""


def unwatched(spent: int, low: float, high: float) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Point:
    """The measurements at one epsilon.

    successes, trials: one number per attack. values: for each attack the numbers that the search used, one in [0, 1]
    per trial (hits or posteriors). losses: each attack's plug-in loss in nats at the mean of its values. candidates,
    alpha: as in the design.
    """

    epsilon: float
    successes: tuple[int, ...]
    trials: tuple[int, ...]
    losses: tuple[float, ...]
    values: Sequence[NDArray[np.float64]] = field(repr=False, compare=False)
    candidates: int
    alpha: float

    @property
    def loss(self) -> float:
        """The plug-in loss of the strongest attack, in nats."""
        return max(self.losses)

    def between(self, attack: int | None = None) -> tuple[float, float]:
        """Return the interval of the loss of an attack (by index), or of the strongest attack, at confidence 1 - alpha.

        The interval is valid for any way of choosing the number of trials (`betting`).
        """
        values = [each for each in (self.values if attack is None else [self.values[attack]]) if len(each)]
        ends = [interval(each, self.alpha / len(values)) for each in values]
        low, high = (max(loss_at(rate, self.candidates) for rate in side) for side in zip(*ends, strict=True))
        return low, high


@dataclass(frozen=True)
class Calibrated:
    """The result of a search.

    low, high: an interval that contains the epsilon at the target, at confidence 1 - alpha. best: an estimate of this
    epsilon.

    status: "found" (the interval is as narrow as requested), "undecided" (the trials ran out first), "outside" (the
    target is not reached between the smallest and the largest epsilon; `low` is 0 or `high` is infinite, and `best` is
    None), "falling" (the loss is above the target at the smallest epsilon and below the target at a larger one, so it
    falls through the target in between) or "not monotone" (the loss is above the target at one epsilon and below the
    target at a larger one; the interval is about the largest epsilon below which no measured loss exceeds the target).
    trials: number of rewrites spent. points: the measurements, by epsilon. contradiction: for a curve that falls
    somewhere, the two points that show the fall, in order of epsilon. attacks: the attacks' names, in the order of the
    numbers in each point; empty if attacks have no names. by: HITS or POSTERIORS, the basis of the interval. departs:
    True if hits refuted the mechanism's law.
    """

    target: float
    status: str
    low: float
    high: float
    best: float | None
    trials: int
    points: Sequence[Point] = field(repr=False)
    contradiction: tuple[Point, Point] | None = None
    attacks: tuple[str, ...] = ()
    by: str = HITS
    departs: bool = False


@dataclass(frozen=True)
class Goal:
    """The target loss, in nats, and the range of epsilon to search, from `low` to `high`.

    width: the ratio of the ends of the final interval. budget: the number of all trials together. Raises UserError for
    an invalid target, range, width or budget.
    """

    target: float
    low: float
    high: float
    width: float = 1.25
    budget: int = 50_000

    def __post_init__(self) -> None:
        for name in ("target", "low", "high", "width"):
            check_number(getattr(self, name), name)
        check_whole(self.budget, "budget")
        if not (self.target > 0 and math.isfinite(self.target)):
            raise UserError(f"the target loss must be a finite number > 0, got {self.target}", "EPS-A036")
        if not 0 < self.low < self.high < math.inf:
            raise UserError(
                f"the range of epsilon must be 0 < low < high, got {self.low:g} to {self.high:g}", "EPS-A037"
            )
        if not self.width > 1:
            raise UserError(f"width, the ratio of the interval's ends, must be > 1, got {self.width}", "EPS-A038")
        if self.budget < 1:
            raise UserError(f"budget, the largest number of trials, must be >= 1, got {self.budget}", "EPS-A039")


def calibrate(
    measure: Measure,
    goal: Goal,
    attacks: int = 1,
    design: Design = STANDARD,
    watch: Watch = unwatched,
    lawful: bool = False,
) -> Calibrated:
    """Search for the epsilon at which the strongest of several attacks meets the goal's loss.

    Only the candidates and alpha of the design matter. watch: called after every batch. lawful: True if batches have
    posteriors. Raises UserError for a loss that no success rate can prove, before anything is measured.
    """
    target, low, high, budget, k = goal.target, goal.low, goal.high, goal.budget, design.k
    _check_shown(target, k)
    steps = max(_SPAN, math.ceil(_SPAN * math.log(high / low) / math.log(goal.width)))
    grid = np.geomspace(low, high, steps + 1)
    curves = _Curves(target, k, step=math.log(high / low) / steps, steps=steps)
    draws = _Rounds(attacks, steps, design.alpha, lawful)
    last, spent, contradiction, falls = steps, 0, None, False
    while True:  # a round: a search among the epsilons up to the place `last`, on fresh trials
        evidence = draws.evidence(curves, last)
        while spent < budget and (at := evidence.next()) is not None:
            place = last - at if falls else at
            first = int(draws.trials[:, place].max())
            trusted = draws.by == POSTERIORS
            count = min(max((_BATCH // 2 if first else _LOOK) if trusted else _BATCH, first // 8), budget - spent)
            numbers = evidence.unsettled(at)
            draws.add(place, numbers, measure(float(grid[place]), first, count, numbers), count)
            if trusted and draws.departs:  # the search starts again, with the hits of all trials so far
                last, contradiction, falls = steps, None, False
                evidence = draws.evidence(curves, steps, replayed=True)
            else:
                evidence.add(at, *draws.values(-1)[1:])
            spent += count
            below, above = _ends(evidence, last, falls=falls)
            watch(spent, float(grid[max(below, 0)]), float(grid[min(above, last)]))
        pair = evidence.contradiction()
        if falls or evidence.open().any() or not pair:
            break
        contradiction, last = contradiction or pair, evidence.first_above()
        if last == 0:  # the loss falls between the first epsilon and the later one of the pair
            falls, last = True, pair[1]
    status, below, above, outside = _outcome(evidence, last, falls=falls, contradicted=bool(contradiction))
    contradiction = pair if status == UNDECIDED and outside else contradiction
    ends = float(grid[below]) if below >= 0 else 0.0, float(grid[above]) if above <= last else math.inf
    crossing = last - evidence.expected() if falls else evidence.expected()
    best = None if outside else min(max(float(low * math.exp(crossing * curves.step)), ends[0]), ends[1])
    points = {place: draws.point(place, float(grid[place]), k) for place in draws.places()}
    return Calibrated(
        target,
        status,
        *ends,
        best=best,
        trials=spent,
        points=[*points.values()],
        contradiction=contradiction and (points[contradiction[0]], points[contradiction[1]]),
        by=draws.by,
        departs=draws.departs,
    )


def _check_shown(target: float, candidates: int) -> None:
    """Raise UserError for a loss that no success rate can prove."""
    if not success_bound(target, candidates) < 1:
        raise UserError(
            f"no success rate proves a loss of {target:g} nats with {candidates} candidates; set a lower target",
            "EPS-A040",
        )


def _ends(evidence: _Evidence, last: int, *, falls: bool) -> tuple[int, int]:
    """Return the places around the crossing; -1 or last + 1 if unknown. falls: True if places are counted backwards."""
    below, above = evidence.ends()
    return (last - above, last - below) if falls else (below, above)


def _outcome(evidence: _Evidence, last: int, *, falls: bool, contradicted: bool) -> tuple[str, int, int, bool]:
    """Return the status, the two places around the crossing, and True if no epsilon is known to meet the target.

    last: the last place of the search; contradicted: True if the loss was seen to fall.
    """
    below, above = _ends(evidence, last, falls=falls)
    if falls:  # the loss was above the target at the first place, and below it at the last
        return FALLING, max(below, 0), min(above, last), False
    outside = above == 0 or below == last
    if contradicted:
        return NOT_MONOTONE, below, above, outside
    if outside:  # a loss that seems to fall may still meet the target
        return (UNDECIDED, -1, last + 1, True) if evidence.contradiction() else (OUTSIDE, below, above, True)
    return FOUND if evidence.is_narrow() else UNDECIDED, below, above, False


class _Rounds:
    """The batches of all rounds (searches, see `calibrate`), and the numbers that are bet on.

    If batches have posteriors, the bets are on posteriors until the hits refute the law. All other bets are on hits.
    """

    def __init__(self, attacks: int, steps: int, alpha: float, lawful: bool) -> None:
        self._alpha, self._steps, self._lawful = alpha, steps, lawful
        self._laws = [LawTest() for _ in range(attacks)]
        self.departs = False
        self.batches: list[tuple[int, Sequence[int], Sequence[Batch], int]] = []
        self.trials = np.zeros((attacks, steps + 1), np.int64)

    @property
    def by(self) -> str:
        """The numbers that are bet on: HITS or POSTERIORS."""
        has_posteriors = not self.batches or any(batch.posteriors is not None for batch in self.batches[0][2])
        return POSTERIORS if self._lawful and has_posteriors and not self.departs else HITS

    def add(self, place: int, numbers: Sequence[int], batches: Sequence[Batch], count: int) -> None:
        """Enter a batch of each attack that ran, and test the law on these batches."""
        self.batches.append((place, numbers, batches, count))
        self.trials[numbers, place] += count
        for attack, batch in zip(numbers, batches, strict=True):
            if self._lawful and batch.posteriors is not None:
                self._laws[attack].add(batch.successes, batch.posteriors)
        level = _DOUBT * self._alpha / len(self._laws)
        self.departs = self.departs or any(law.refutes(level) for law in self._laws)

    def values(self, number: int) -> tuple[int, Sequence[int], list[_Values]]:
        """Return the place and the attacks of a batch, and for each attack the numbers that are bet on."""
        place, numbers, batches, count = self.batches[number]
        values = []
        for batch in batches:
            if batch.posteriors is None or self.by == HITS:
                values.append((np.array([0.0, 1.0]), np.array([count - batch.successes, batch.successes])))
            else:
                values.append(np.unique(batch.posteriors, return_counts=True))
        return place, numbers, values

    def evidence(self, curves: _Curves, last: int, replayed: bool = False) -> _Evidence:
        """Return evidence on the places up to `last`: empty or, if `replayed`, with all batches so far."""
        alpha = self._alpha * (1 - _DOUBT) if self.by == POSTERIORS else self._alpha
        evidence = _Evidence(curves, len(self._laws), last, math.log(1 / alpha))
        for number in range(len(self.batches) if replayed else 0):
            evidence.add(*self.values(number))
        return evidence

    def places(self) -> list[int]:
        """Return the places with at least one batch."""
        return [int(place) for place in np.flatnonzero(self.trials.any(axis=0))]

    def point(self, place: int, epsilon: float, candidates: int) -> Point:
        """Return the measurements at a place."""
        successes, every = np.zeros(len(self.trials), np.int64), [[np.empty(0)] for _ in self.trials]
        for number, (at, numbers, batches, _) in enumerate(self.batches):
            if at == place:
                successes[numbers] += [batch.successes for batch in batches]
                for attack, (distinct, times) in zip(numbers, self.values(number)[2], strict=True):
                    every[attack].append(np.repeat(distinct, times))
        values = [np.concatenate(each) for each in every]
        return Point(
            epsilon,
            tuple(successes.tolist()),
            tuple(self.trials[:, place].tolist()),
            losses=tuple(loss_at(float(each.sum()) / max(len(each), 1), candidates) for each in values),
            values=values,
            candidates=candidates,
            alpha=self._alpha,
        )


class _Curves:
    """The curves that are bet on: success rates q [steps + crossings, b] by distance from the crossing, in grid steps.

    Crossings lie midway between two places of the grid, so that no curve meets p* at a place.
    """

    def __init__(self, target: float, candidates: int, step: float, steps: int) -> None:
        self.step, self.wanted = step, success_bound(target, candidates)
        self.crossings = np.arange(-_SPAN, steps + _SPAN + 1) - 0.5
        distance = np.arange(steps + len(self.crossings)) - self.crossings[-1]
        loss = target * np.exp(np.clip(np.multiply.outer(distance * step, _EXPONENTS), -30, 3.4))
        odds = (candidates - 1) * np.exp(-loss)
        q = np.clip(1 / (1 + odds), 1e-9, 1 - 1e-9)  # TeDA eq. 10 solved for the probability
        self.hit, self.miss = np.log(q), np.log1p(-q)
        self.stake = (q - self.wanted) / (self.wanted * (1 - self.wanted))  # the stake m of a bet on hits
        self.below = distance < 0
        self.growth = rel_entr(q, self.wanted) + rel_entr(1 - q, 1 - self.wanted)  # of ln wealth, expected per trial

    def at(self, table: NDArray[np.float64], place: int) -> NDArray[np.float64]:
        """Return the rows of a table at this place, [crossings, ...]."""
        return table[place : place + len(self.crossings)][::-1]

    def expected_growth(self, posterior: NDArray[np.float64], below: bool) -> NDArray[np.float64]:
        """Return [steps + 1], the mean growth of ln wealth per trial at each place. below: True for bets on p < p*."""
        side = np.where((self.below == below)[:, None], self.growth, 0)
        return np.sum([np.convolve(g, w, "valid") for g, w in zip(side.T, posterior.T, strict=True)], axis=0)


class _Evidence:
    """The bets on places 0, ..., last of the grid. Cell i lies before place i; cell last + 1 is after all places."""

    def __init__(self, curves: _Curves, attacks: int, last: int, limit: float) -> None:
        self._curves, self._last, self._limit = curves, last, limit
        self._trials = np.zeros((attacks, last + 1), np.int64)
        self._sums, self._squares = np.zeros((2, attacks, last + 1))
        self._coins = np.ones((attacks, last + 1))  # r: the number of coins that are as informative as one value
        # ln wealth from bets on p < p* and on p > p*; axes: bets by curve or on one epsilon alone, attacks, places
        self._below, self._above = np.zeros((2, len(_PARTS), attacks, last + 1))
        self._crossing: list[float | None] = [None] * attacks  # expected place of the crossing
        self.wealth = np.zeros(last + 2)  # ln wealth of the bettor against each cell
        self._refuted = np.zeros(last + 2, bool)

    def add(self, place: int, numbers: Sequence[int], batches: Sequence[_Values]) -> None:
        """Settle the bets on a batch at one place. batches: each attack's distinct numbers, and their counts."""
        wanted, curves = self._curves.wanted, self._curves
        before = curves.at(curves.below, place)
        for attack, (values, times) in zip(numbers, batches, strict=True):
            posterior, coins = self._posterior(attack), self._near(attack, place)
            gain = _gain(coins * curves.at(curves.stake, place), values, times, wanted, coins=coins)
            self._below[0, attack, place] += logsumexp(posterior + np.where(before[:, None], gain, 0))
            self._above[0, attack, place] += logsumexp(posterior + np.where(before[:, None], 0, gain))
            own = coins * self._sums[attack, place] + _ALONE * wanted
            q = float(np.clip(own / (coins * self._trials[attack, place] + _ALONE), 1e-3, 1 - 1e-3))
            side, alone = self._below if q < wanted else self._above, (q - wanted) / (wanted * (1 - wanted))
            side[1, attack, place] += float(_gain(np.array(coins * alone), values, times, wanted, coins=coins))
            self._sums[attack, place] += values @ times
            self._squares[attack, place] += values**2 @ times
            self._trials[attack, place] += times.sum()
            self._coins[attack, place] = self._worth(attack, place)
        self.wealth = self._total()
        self._refuted |= self.wealth >= self._limit  # final, even if the wealth falls again

    def _worth(self, attack: int, place: int) -> float:
        """Return the number of coins that are as informative as one value here; 1 if all values are 0 or 1."""
        n, s, squares = (of[attack, place] for of in (self._trials, self._sums, self._squares))
        coin = self._curves.wanted * (1 - self._curves.wanted)
        return 1.0 if squares == s else max(1.0, coin * (n + 1) / (squares - s**2 / n + coin))

    def _near(self, attack: int, place: int) -> float:
        """Return the number of coins (`_worth`) at the nearest place with trials."""
        seen = np.flatnonzero(self._trials[attack])
        return float(self._coins[attack, seen[np.abs(seen - place).argmin()]]) if len(seen) else 1.0

    def open(self) -> NDArray[np.bool_]:
        """Return [last + 2]: True for the cells that are not refuted."""
        return ~self._refuted

    def ends(self) -> tuple[int, int]:
        """Return the places around the cells that are not refuted; -1 or last + 1 beyond the grid."""
        cells = np.flatnonzero(self.open())
        return (int(cells[0]) - 1, int(cells[-1])) if len(cells) else (-1, self._last + 1)

    def is_narrow(self) -> bool:
        """Return True if the interval is as narrow as requested."""
        below, above = self.ends()
        return below >= 0 and above <= self._last and above - below <= _SPAN

    def unsettled(self, place: int) -> list[int]:
        """Return the attacks whose rate here is not yet shown to be below p*; if there are none, return all attacks."""
        settled = np.logaddexp.reduce(self._below[..., place] + _PARTS[:, None], axis=0) >= self._limit
        return [int(i) for i in np.flatnonzero(~settled)] or list(range(len(settled)))

    def expected(self) -> float:
        """Return the place where the strongest attack is expected to meet p*."""
        return min(max(min(self._mean(i) for i in range(len(self._crossing))), 0.0), float(self._last))

    def contradiction(self) -> tuple[int, int] | None:
        """Return the clearest pair of a place above p* and a later place below it; None without such a pair."""
        clear = self._clear()
        pairs = [(i, j) for j in np.flatnonzero(clear < -_CLEAR) for i in np.flatnonzero(clear[:j] > _CLEAR)]
        best = max(pairs, key=lambda pair: min(clear[pair[0]], -clear[pair[1]]), default=None)
        return best and (int(best[0]), int(best[1]))

    def first_above(self) -> int:
        """Return the first place that is surely above p*; requires a contradiction."""
        sure = np.flatnonzero(self._clear() > self._limit)
        pair = self.contradiction()
        return int(sure[0]) if len(sure) else pair[0] if pair else 0

    def next(self) -> int | None:
        """Return the place of the next batch; None if the search is finished."""
        if not (self.open().any()):
            return None
        scan = [round(part * self._last) for part in _SCAN]
        unseen = [place for place in scan if not self._trials[:, place].any()]
        if unseen and unseen[0] in (0, self._last):
            return unseen[0]
        clear = self._clear()
        if pair := self.contradiction():
            return min(pair, key=lambda place: abs(clear[place]))
        below, above = self.ends()
        if above == 0 and clear[self._last] <= _CLEAR:  # a falling loss may be below the target there
            return self._last
        if below == self._last and clear[0] >= -_CLEAR:
            return 0
        if above == 0 or self.is_narrow():
            return None
        return unseen[0] if unseen else None if below == self._last else self._soonest()

    def _soonest(self) -> int:
        """Return an end of the interval that is expected to settle with the fewest trials, or an end of the range."""
        missing = np.where(self._refuted, 0, self._limit - self.wealth)
        strongest = min(range(len(self._crossing)), key=self._mean)
        posterior = np.exp(self._posterior(strongest))
        seen = np.flatnonzero(self._trials[strongest])
        coins = np.interp(np.arange(self._last + 1), seen, self._coins[strongest, seen])
        costs = []
        for below in (True, False):
            growth = coins * self._curves.expected_growth(posterior, below)[: self._last + 1]
            # All cells before the low end must be refuted, and all cells after the high end.
            ahead = np.maximum.accumulate(missing)[:-1] if below else np.maximum.accumulate(missing[::-1])[::-1][1:]
            costs.append(np.where(ahead > 0, ahead / np.maximum(growth, 1e-12), 0))
        low, high = costs
        width = min(_SPAN, self._last)
        both = low[: self._last - width + 1] + high[width:]
        left = int(both.argmin())
        if min(high[0], low[-1]) < both[left]:  # perhaps all places are above p*, or all are below it
            return 0 if high[0] <= low[-1] else self._last
        return left if low[left] >= high[left + width] else left + width

    def _total(self) -> NDArray[np.float64]:
        """Return [last + 2]: ln wealth of the bettor against each cell, over all bets."""
        above = np.pad(np.cumsum(self._above, axis=-1), ((0, 0), (0, 0), (1, 0)))
        below = np.pad(np.cumsum(self._below.min(axis=1)[:, ::-1], axis=-1)[:, ::-1], ((0, 0), (0, 1)))
        some = np.logaddexp.reduce(above, axis=1) - math.log(above.shape[1])
        total: NDArray[np.float64] = np.logaddexp.reduce(some + below + _PARTS[:, None], axis=0)
        return total

    def _posterior(self, attack: int) -> NDArray[np.float64]:
        """Return [crossings, b]: ln probabilities of the curves."""
        curves, posterior = self._curves, np.zeros((len(self._curves.crossings), len(_EXPONENTS)))
        centre = self._crossing[attack]
        for place in np.flatnonzero(self._trials[attack]).tolist():
            far = 0.0 if centre is None else (place - centre) / (_WINDOW * _SPAN)
            s, n = (self._coins[attack, place] * of[attack, place] for of in (self._sums, self._trials))
            likelihood = s * curves.at(curves.hit, place) + (n - s) * curves.at(curves.miss, place)
            posterior += math.exp(-(far**2) / 2) * likelihood
        posterior -= logsumexp(posterior)
        self._crossing[attack] = float(np.exp(posterior).sum(axis=1) @ curves.crossings)
        return posterior

    def _mean(self, attack: int) -> float:
        centre = self._crossing[attack]
        return float(self._last) / 2 if centre is None else centre

    def _clear(self) -> NDArray[np.float64]:
        """Return [places]: ln likelihood ratio of the strongest attack's success rate to p*; negative below p*."""
        s, n, wanted = self._sums, self._coins * self._trials, self._curves.wanted
        rate = s / np.maximum(self._trials, 1)
        signed = np.sign(rate - wanted) * n * (rel_entr(rate, wanted) + rel_entr(1 - rate, 1 - wanted))
        largest: NDArray[np.float64] = signed.max(axis=0)
        return largest


def _gain(
    stakes: NDArray[np.float64],
    values: NDArray[np.float64],
    times: NDArray[np.integer],
    wanted: float,
    *,
    coins: float,
) -> NDArray[np.float64]:
    """Return the ln factor of the wealth for each stake [...], on values that occur `times` times."""
    if coins > 1:
        stakes = np.clip(stakes, -_MOST / (1 - wanted), _MOST / wanted)
    gain: NDArray[np.float64] = np.log1p(np.multiply.outer(stakes, values - wanted)) @ times
    return gain
