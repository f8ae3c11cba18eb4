"""Whether a mechanism leaks more than it may: decided on fresh trials, as few as it takes.

Each attack has a limit on its loss, which is a limit p* on its success probability (TeDA eq. 10). After every batch of
trials, s successes in n so far, two bettors are looked at (Ville 1939; Robbins 1970):

    above: the mean over q in (p*, 1) of (q / p*)^s ((1 - q) / (1 - p*))^(n - s)    bets that the limit is exceeded,
    below: the same over q in (0, p*)                                               bets that it is kept.

Each is a non-negative supermartingale that begins at 1 where its bet is wrong. So one may look after every batch:

- **leaks more** as soon as one of a attacks has `above` at a / alpha: a mechanism that keeps all limits is ever accused
  with probability at most alpha (union bound over the attacks);
- **passed** as soon as all attacks have `below` at 1 / beta: one that exceeds some limit ever passes with probability
  at most beta, for that attack's bettor alone would have to be that wrong;
- **undecided** when the trials run out first, as they must where a loss is at its limit, and where an attack has no
  limit, since its baseline was right in every trial: nothing that it could do would count against the mechanism.

A limit on **delta at 4 nats** is judged the same way, by thresholds of an attack's score that were learnt on other
trials (`estimation/tail.py`). A trial counts 1 where a guess beyond the threshold names the source, -e^4 / (k - 1)
where it names another candidate, else 0; the mean of these is at most delta at 4 nats. `above` bets on the one
threshold that proved most. That the limit is kept takes every threshold, since the one learnt may be a bad one: `below`
bets in each interval of a grid, with right guesses scored above its lower end and wrong ones at its upper end or above,
and all must reach 1 / beta. So an attack that exceeds the limit at any threshold passes with probability at most beta:
the bettor in that threshold's interval alone would have to be that wrong. Stakes are mixed over a grid
(`estimation/betting.py`).

A limit on the **identifiers that survive** is judged once, of a number of texts that is fixed beforehand: each has one
identifier of a kind, and of planted ones of a shape (`identifiers/surviving.py`), so that the survivors of each are
binomial. A kind or shape passes where the upper end of Clopper and Pearson's interval at 1 - beta is within the limit,
leaks more where the lower end at 1 - alpha / a exceeds it, a counting shapes as attacks, and is undecided else; all
must pass. So a mechanism of which one shape exceeds the limit passes with probability at most beta however many shapes
there are, and one that keeps all is accused with at most alpha, together with whatever else is limited.

A limit on what attackers infer of an **attribute** is judged the same way: of test texts in equal number from each of k
classes, one an author, each rewritten afresh once, the right inferences of an attacker who learned from other rewrites
are no more spread than a binomial of their mean rate (Hoeffding 1956), which a limit of so many nats bounds (TeDA eq.
10). A limit on **linking** is judged of independent sets of rewrites: the share of a set that is linked rightly is a
number in [0, 1], whose mean has an interval by betting (`estimation/betting.py`).

A pass is a statement about the attacks that were run. One that is right significantly
less often than blind guessing (`below_chance`, at 1e-6 a look) tells candidates apart and yet keeps every limit: it is
undecided. A baseline's loss is known up to its interval: an increase is judged against the middle between the baseline
and what is not to be missed, or against the baseline's upper end where that is higher (`limit_of_increase`). So nobody
is accused wrongly while the baseline's interval contains its loss; where it does not, every run inherits the error.
`least_found` says which loss is then found with the stated power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaincinv, betaln, logsumexp, xlogy
from scipy.stats import binom

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import Estimate, below_chance, clopper_pearson, loss_at, success_bound
from epsilometer.auditing.estimation.tail import WEIGHT, difference
from epsilometer.auditing.results.scope import Scope
from epsilometer.auditing.trials.answers import NONE, Answers
from epsilometer.core.errors import UserError

MANY = 10_000_000_000  # rewrites, more than anybody makes
PASSED, LEAKS_MORE, UNDECIDED = "passed", "leaks more", "undecided"
BY_LAW = ": by its stated law"  # after an attribute, whose limit that law shows kept
_FIRST = 200  # trials before one looks
_STAKES = np.geomspace(0.001, 0.95, 14)  # of what a bettor owns, as in `estimation/betting.py`
_GROWTH = 4  # a batch is this part of all before, so that looks are few and no more than that is wasted


@dataclass(frozen=True)
class Errors:
    """alpha: the probability that a mechanism within its limits is accused; beta: that one beyond them passes.

    A thousandth: daily runs against fixed limits see one false accusation in three years at most. Raises UserError
    outside (0, 1).
    """

    alpha: float = 0.001
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 1:
                raise UserError(f"{name} must be in (0, 1), got {value}")


STANDARD = Errors()


@dataclass(frozen=True)
class LossLimit:
    """The largest loss that an attack may show, in nats, and in words where it comes from.

    of_baseline: whether that is what was accepted earlier.
    """

    loss: float
    source: str
    of_baseline: bool = False


@dataclass(frozen=True)
class TailLimit:
    """The largest delta at 4 nats that an attack's sure guesses may show, and in words where it comes from."""

    delta: float
    source: str


@dataclass(frozen=True)
class RateLimit:
    """The largest share of identifiers of a kind that may survive, and in words where it comes from.

    partly: whether those that survive in part count.
    """

    rate: float
    source: str
    partly: bool = False


@dataclass(frozen=True)
class InferenceLimit:
    """The largest loss that an attacker of one of so many equally likely classes may show, and where it comes from.

    joined: how many attributes the classes are of.
    """

    loss: float
    classes: int
    source: str
    joined: int = 1

    @property
    def rate(self) -> float:
        """The success rate at that loss."""
        return success_bound(self.loss, self.classes)


@dataclass(frozen=True)
class LinkingLimit:
    """The largest loss that who links people to one of so many rewrites may show, and where it comes from."""

    loss: float
    rewrites: int
    source: str

    @property
    def rate(self) -> float:
        """The success rate at that loss."""
        return success_bound(self.loss, self.rewrites)


AnyLimit = LossLimit | TailLimit | RateLimit | InferenceLimit | LinkingLimit


class Sure(NamedTuple):
    """How often guesses beyond a threshold of their score name the source, and how often another candidate."""

    hits: int
    misses: int


@dataclass(frozen=True)
class Judged:
    """One attack against its limit, None where it has none; against a RateLimit one kind of identifier.

    successes: right guesses; against a TailLimit the sure ones among them, beside `misses`, the sure wrong ones; of a
    kind the survivors, among `trials` texts. point: its loss at the success rate seen; against a TailLimit the delta at
    the rates seen, of a kind the share that survived. shape: of planted identifiers. partly: of a kind, how many
    identifiers survived in part alone. precision: of a kind, the number of masked runs of words, the share of them that
    touch an identifier, None where there are none, and its interval; None of what is no kind.
    unrefuted: of what a stated law shows, how many rewrites did not refute it; 0 of what was counted. turned: whether
    it was right less often than by chance (`below_chance`), so that it cannot pass. unanswered: whether it kept its
    limit while answers of a service were missing, so that it is undecided. of_texts: of each trial the text
    and whether it was named, inferred or linked rightly, or its identifier survived.
    """

    attack: str
    successes: int
    trials: int
    point: float
    limit: AnyLimit | None
    status: str
    misses: int = 0
    shape: str | None = None
    partly: int | None = None
    precision: tuple[int | None, float | None, float | None, float | None] | None = None
    unrefuted: int = 0
    turned: bool = False
    unanswered: bool = False
    of_texts: Sequence[tuple[str, bool]] = field(default=(), repr=False)


@dataclass(frozen=True)
class Verdict:
    """status: PASSED, LEAKS_MORE or UNDECIDED; trials: at the end; attacks: one by one, the one that decided first.

    answers: counts of the rewrites that were judged. scope: what the verdict covers.
    """

    status: str
    trials: int
    attacks: Sequence[Judged]
    answers: Answers = NONE
    scope: Scope = field(default_factory=Scope)


Measure = Callable[[int, int], Sequence[int | Sequence[Sure]]]
"""(first, count) -> of each attack, how many of the fresh trials first, ..., first + count - 1 were successes.

Of one with a TailLimit its guesses beyond the threshold that proves most, then those that count in each interval
between thresholds (`Scored.between`); the thresholds depend on none of these trials.
"""


def decide(
    measure: Measure,
    limits: Mapping[str, LossLimit | TailLimit | None],
    budget: int,
    candidates: int,
    *,
    errors: Errors = STANDARD,
    beside: int = 0,
) -> Verdict:
    """Draw trials until every limit is known to be kept, or one to be exceeded, or the budget is spent.

    limits: of each attack by name, in the order in which `measure` counts; an attack with None is undecided whatever it
    does. beside: how many limits are judged elsewhere and share alpha. Raises UserError for a limit that no success
    rate exceeds, and for a budget without a trial.
    """
    if budget < 1:
        raise UserError(f"the budget must be at least one rewrite, got {budget}")
    limited = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in limited.items():
        if isinstance(limit, LossLimit) and not 0 < success_bound(limit.loss, candidates) < 1:
            raise UserError(f"no success rate exceeds a loss of {limit.loss:g} nats ({name}); give a lower limit")
    counts: dict[str, list[Sure]] = {name: [] for name in limits}
    trials, each = 0, dict.fromkeys(limits, UNDECIDED)
    settled, turned = False, dict.fromkeys(limits, False)
    while trials < budget and not settled:
        count = min(max(_FIRST, trials // _GROWTH), budget - trials)
        for name, more in zip(limits, measure(trials, count), strict=True):
            batch = [Sure(more, 0)] if isinstance(more, int) else more
            before = counts[name] or [Sure(0, 0)] * len(batch)
            counts[name] = [Sure(a + c, b + d) for (a, b), (c, d) in zip(before, batch, strict=True)]
        trials += count
        for name, limit in limited.items():
            above, below = (_wealth(limit, counts[name], trials, candidates, above=way) for way in (True, False))
            each[name] = _status(above, below, len(limited) + beside, errors)
            turned[name] = isinstance(limit, LossLimit) and below_chance(counts[name][0].hits, trials, candidates)
            if each[name] == PASSED and turned[name]:
                each[name] = UNDECIDED
        settled = _whole([each[name] for name in limited]) != UNDECIDED
    attacks = [
        Judged(
            name,
            seen.hits,
            trials,
            point=_point(limits[name], seen, trials, candidates),
            limit=limits[name],
            status=each[name],
            misses=seen.misses,
            turned=turned[name],
        )
        for name, (seen, *_) in counts.items()
    ]
    return verdict_of(attacks, trials)


def verdict_of(attacks: Sequence[Judged], trials: int) -> Verdict:
    """The verdict on everything that was judged."""
    return Verdict(_whole([judged.status for judged in attacks]), trials, sorted(attacks, key=_decisive))


def judge_rate(
    name: str, successes: int, trials: int, limit: RateLimit | InferenceLimit, *, tests: int, errors: Errors
) -> Judged:
    """Identifiers of a kind that survived, one in each of so many texts, or right inferences of a class, against the
    largest share that there may be.

    tests: how many limits share alpha.
    """
    low, high = (
        clopper_pearson(successes, trials, 2 * errors.alpha / tests)[0],
        clopper_pearson(successes, trials, 2 * errors.beta)[1],
    )
    share = successes / trials
    point = loss_at(share, limit.classes) if isinstance(limit, InferenceLimit) else share
    return Judged(name, successes, trials, point, limit=limit, status=_by_ends(low, high, limit.rate))


def judge_links(name: str, shares: Sequence[float], limit: LinkingLimit, *, tests: int, errors: Errors) -> Judged:
    """The share of each set of rewrites that was linked rightly, against the largest mean that there may be.

    shares: of independent sets, whose number was fixed beforehand. tests: how many limits share alpha.
    """
    low = interval(shares, 2 * errors.alpha / tests, fixed=True)[0]
    high = interval(shares, 2 * errors.beta, fixed=True)[1]
    linked, links = round(sum(shares) * limit.rewrites), len(shares) * limit.rewrites
    point = loss_at(linked / links, limit.rewrites)
    return Judged(name, linked, links, point, limit=limit, status=_by_ends(low, high, limit.rate))


def _by_ends(low: float, high: float, rate: float) -> str:
    return LEAKS_MORE if low > rate else PASSED if high <= rate else UNDECIDED


def fewest_texts(rate: float, tests: int, *, errors: Errors) -> int:
    """The fewest texts that could show a share to be within the rate, and could show one to exceed it."""
    within = math.log(errors.beta) / math.log1p(-rate)  # none survives
    beyond = math.log(errors.alpha / tests) / math.log(rate)  # all do
    return max(math.ceil(within), math.floor(beyond) + 1)


def enough_texts(rate: float, tests: int, *, errors: Errors, share: float | None = None) -> int:
    """Texts of which one with this share, a quarter of the rate by default, passes with probability 1 - beta."""
    share = rate / 4 if share is None else share
    texts = fewest_texts(rate, tests, errors=errors)
    while binom.cdf(_most_survivors(texts, rate, errors), texts, share) < 1 - errors.beta:
        texts += -(-texts // 10)
    return texts


def least_rate_found(texts: int, rate: float, tests: int, *, errors: Errors) -> float:
    """The least share that so many texts tell from the rate with probability 1 - beta; infinite if none."""
    survivors = int(binom.isf(errors.alpha / tests, texts, rate)) + 1
    if survivors > texts:
        return math.inf
    return float(betaincinv(survivors, texts - survivors + 1, 1 - errors.beta))


def _most_survivors(texts: int, rate: float, errors: Errors) -> int:
    """The most of so many with which a kind passes; -1 for none."""
    survivors = int(binom.ppf(errors.beta, texts, rate))
    return survivors if binom.cdf(survivors, texts, rate) <= errors.beta else survivors - 1


def limit_of_increase(baseline: Estimate, increase: float) -> LossLimit:
    """The limit that tells a baseline's loss from one that is larger by `increase` nats."""
    middle = baseline.point + increase / 2
    if baseline.upper > middle:
        return LossLimit(baseline.upper, f"the baseline's upper end, at {baseline.trials:,} trials", of_baseline=True)
    return LossLimit(middle, f"the baseline's {baseline.point:.2f} and half of {increase:g}", of_baseline=True)


def log_wealth(successes: int, trials: int, bound: float, above: bool) -> float:
    """ln of what a bettor owns who bets that the success probability lies above the bound, or else below it."""
    misses = trials - successes
    share = (betaincc if above else betainc)(successes + 1, misses + 1, bound)
    if share <= 0:
        return -math.inf
    at_bound = xlogy(successes, bound) + xlogy(misses, 1 - bound)
    width = 1 - bound if above else bound
    return float(betaln(successes + 1, misses + 1) + math.log(share) - math.log(width) - at_bound)


def log_wealth_of_tail(sure: Sure, trials: int, delta: float, candidates: int, above: bool) -> float:
    """The same of a bettor on the mean of what sure guesses count, against a limit on delta at 4 nats."""
    return float(_log_wealths_of_tail([sure], trials, delta, candidates, above=above)[0])


def _log_wealths_of_tail(
    counts: Sequence[Sure], trials: int, delta: float, candidates: int, *, above: bool
) -> NDArray[np.float64]:
    miss = WEIGHT / (candidates - 1)
    stakes = _STAKES / (delta + miss) if above else -_STAKES / (1 - delta)
    gains = np.log1p(np.outer([1 - delta, -miss - delta, -delta], stakes))
    each = np.array([(*sure, trials - sum(sure)) for sure in counts])
    wealths: NDArray[np.float64] = logsumexp(each @ gains, axis=1) - math.log(len(_STAKES))
    return wealths


def most_missed(misses: int, trials: int, *, errors: Errors) -> float:
    """The share of trials in which sure guesses are wrong at most, at confidence 1 - beta; up to two digits."""
    upper = clopper_pearson(misses, trials, 2 * errors.beta)[1]
    unit = 10.0 ** (math.floor(math.log10(upper)) - 1)
    return min(1.0, math.ceil(upper / unit) * unit)


def least_tail_found(
    trials: int, limit: float, candidates: int, attacks: int = 1, *, missed: float, errors: Errors
) -> float:
    """The least delta at 4 nats that so many trials tell from the limit with probability 1 - beta; infinite if none.

    missed: the share of trials in which sure guesses are wrong at most. At beta / 2 each, hits are no fewer and misses
    no more than those that are looked at.
    """
    weight = WEIGHT / (candidates - 1)
    misses = int(binom.isf(errors.beta / 2, trials, missed))
    largest = 1 - (1 + weight) * missed  # every other trial a hit

    def power(delta: float) -> float:
        hits = int(binom.ppf(errors.beta / 2, trials, delta + weight * missed))
        sure = Sure(min(hits, trials - misses), misses)
        return log_wealth_of_tail(sure, trials, limit, candidates, above=True) - math.log(attacks / errors.alpha)

    if largest <= limit or power(largest) < 0:
        return math.inf
    return float(brentq(power, limit, largest, xtol=1e-9))


def least_found(trials: int, limit: float, candidates: int, attacks: int = 1, *, errors: Errors) -> float:
    """The least loss, in nats, that so many trials tell from the limit with probability 1 - beta; infinite if none."""
    bound = success_bound(limit, candidates)

    def power(p: float) -> float:
        successes = int(binom.ppf(errors.beta, trials, p))
        return log_wealth(successes, trials, bound, above=True) - math.log(attacks / errors.alpha)

    if power(1.0) < 0:
        return math.inf
    return loss_at(float(brentq(power, bound, 1.0, xtol=1e-9)), candidates)


def fewest_rewrites(limit: float, candidates: int, errors: Errors) -> int | None:
    """About how many rewrites show that an attack which guesses keeps a limit, in nats; None beyond MANY of them."""
    bound, trials = success_bound(limit, candidates), 1
    while log_wealth(trials // candidates, trials, bound, above=False) < math.log(1 / errors.beta):
        trials += -(-trials // 10)
        if trials > MANY:
            return None
    return trials


def _wealth(
    limit: LossLimit | TailLimit, counts: Sequence[Sure], trials: int, candidates: int, *, above: bool
) -> float:
    seen, *intervals = counts
    if isinstance(limit, LossLimit):
        return log_wealth(seen.hits, trials, success_bound(limit.loss, candidates), above)
    judged = [seen] if above else intervals
    return float(_log_wealths_of_tail(judged, trials, limit.delta, candidates, above=above).min())


def _point(limit: LossLimit | TailLimit | None, seen: Sure, trials: int, candidates: int) -> float:
    if isinstance(limit, TailLimit):
        return difference(seen.hits, seen.misses, trials, candidates)
    return loss_at(seen.hits / trials, candidates)


def _status(above: float, below: float, attacks: int, errors: Errors) -> str:
    if above >= math.log(attacks / errors.alpha):
        return LEAKS_MORE
    return PASSED if below >= math.log(1 / errors.beta) else UNDECIDED


def _decisive(judged: Judged) -> tuple[int, float]:
    """Sorts what decided a verdict first: the worst status, then the loss that is nearest to its limit or beyond it."""
    limit = judged.limit
    room = -math.inf if limit is None else amount(limit) - judged.point
    return (LEAKS_MORE, UNDECIDED, PASSED).index(judged.status), room


def amount(limit: AnyLimit) -> float:
    """The number that a limit allows: nats, a delta or a share."""
    if isinstance(limit, TailLimit):
        return limit.delta
    return limit.rate if isinstance(limit, RateLimit) else limit.loss


def _whole(each: Sequence[str]) -> str:
    if LEAKS_MORE in each:
        return LEAKS_MORE
    return PASSED if all(verdict == PASSED for verdict in each) else UNDECIDED
