"""The statistics of a gate: fresh trials, as few as possible, decide whether limits are kept.

A limit on an attack's **loss** is a limit p* on its success probability (TeDA eq. 10). After every batch of trials,
with s successes in n trials so far, the wealth of two bettors is computed (Ville 1939; Robbins 1970):

    above: the mean over q in (p*, 1) of (q / p*)^s ((1 - q) / (1 - p*))^(n - s)    bets that the limit is exceeded,
    below: the same over q in (0, p*)                                               bets that it is kept.

If a bet is wrong, the wealth is a non-negative supermartingale that starts at 1. So the test is valid after every
batch. The status of a limit (`evidence.status`) is

- **beyond** as soon as `above` reaches a / alpha for one attack, where a is the number of limits that share alpha. A
  mechanism that keeps all limits is called beyond, after any batch, with probability at most alpha (union bound over
  the limits).
- **not exceeded by these attacks** as soon as all attacks have `below` at 1 / beta. A mechanism that exceeds some limit
  passes, after any batch, with probability at most beta, because `below` of that limit's attack reaches 1 / beta with
  probability at most beta.
- **open** if the trials run out first, for example if a loss equals its limit. An attack without a limit is open too.
  It has no limit because it was right in every trial of the baseline, so no result could count against the mechanism.

A limit on **delta at 4 nats** is judged in the same way, with thresholds on an attack's score. Separate trials choose
these thresholds (`estimation/tail.py`). A trial counts 1 for a right guess beyond the threshold, -e^4 / (k - 1) for a
wrong guess beyond the threshold (among k candidates), and 0 otherwise; the mean count is at most delta at 4 nats.
`above` bets on the one threshold that proved most in the separate trials. The limit is kept only if it is kept at every
threshold. So a grid divides the thresholds into intervals, each with its own bettor `below`. This bettor counts the
right guesses scored above the interval's lower end, and the wrong guesses scored at or above the interval's upper end.
All these bettors must reach 1 / beta. An attack that exceeds the limit at some threshold then passes with probability
at most beta, since the bettor of that threshold's interval would have to reach 1 / beta. Stakes are mixed over a grid
(`estimation/betting.py`).

A limit on the **identifiers that survive** is judged once, on a number of texts that is fixed beforehand. Each text has
one identifier. This identifier has a kind and, if it was planted, a shape (its form and place;
`identifiers/surviving.py`). So the number of survivors of each kind or shape is binomial. The bounds are Clopper and
Pearson's. A kind or shape is *within* if its upper bound at error beta is at most the limit, *beyond* if its lower
bound at error alpha / a is above the limit, and open otherwise. Here a is the number of limits, and every shape counts
as one limit. All shapes must pass. So a mechanism that exceeds the limit in one shape passes with probability at most
beta, for any number of shapes. A mechanism that keeps all a limits is called beyond with probability at most alpha.

A limit on an **attribute** is judged in the same way. The k classes have equally many test texts, one per author, each
with one fresh rewrite. The attacker is trained on other rewrites. The number of its right inferences has lighter tails
than a binomial with the same mean rate (Hoeffding 1956). A limit in nats bounds this rate (TeDA eq. 10).

A limit on **linking** is judged on independent sets of rewrites. The share of right links in a set is a number in
[0, 1], and the mean share has an interval by betting (`estimation/betting.py`). The same method judges the share of a
text's words that are guessed right (**which_unit**), and a metric of a text and its rewrite (**similarity**). The limit
on a metric is the smallest mean allowed. For the loss of a **worst pair**, attacks give only a lower bound, so only a
law can show that its limit is kept. A limit on a **claim** is exceeded if an attack's guesses or the law itself refute
the claim.

An attack may be right significantly less often than blind guessing (`below_chance`, at 1e-6 per batch). Such an attack
keeps every limit, but it distinguishes the candidates, so its status is open.

The loss of a **baseline** is known only up to its interval. The limit on an increase is the baseline's loss plus half
of the increase to detect, or the baseline's upper bound if that is higher (`limit_of_increase`). If the baseline's
interval contains the true loss, an unchanged mechanism is called beyond with probability at most alpha. Otherwise every
run inherits the baseline's error. `least_found` gives the smallest loss that is detected with the stated power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import binom

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import Estimate, below_chance, clopper_pearson, loss_at, success_bound
from epsilometer.auditing.estimation.tail import WEIGHT, difference
from epsilometer.auditing.evidence.bounds import decisive
from epsilometer.auditing.evidence.evidence import By, Computed, Confident, Covers, Evidence, Hits, Means, Sure
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status, heaviest
from epsilometer.auditing.evidence.wealth import log_wealth, log_wealth_of_tail, wealth
from epsilometer.auditing.results.scope import Scope
from epsilometer.auditing.trials.answers import NONE, Answers
from epsilometer.core.errors import UserError

MANY = 10_000_000_000  # rewrites; more are not feasible
BY_LAW = ": by its stated law"  # suffix of a figure's name if a stated law shows its limit kept
_NOTABLE = 0.05  # up to this p-value, the point estimate is that the claim is refuted
_MOST_SETS = 1_000_000
_FIRST = 200  # trials in the first batch
_GROWTH = 4  # a batch is 1 / _GROWTH of all earlier trials: batches are few, and at most a quarter of trials is wasted


@dataclass(frozen=True)
class Errors:
    """The error probabilities of a gate.

    alpha: the probability that a mechanism within its limits is called beyond. beta: the probability that a mechanism
    beyond a limit passes.

    At alpha .001, daily runs against fixed limits give on average at most one false alarm in three years. Raises
    UserError for a value outside (0, 1).
    """

    alpha: float = 0.001
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 1:
                raise UserError(f"{name} must be in (0, 1), got {value}", "EPS-A114")


STANDARD = Errors()


@dataclass(frozen=True)
class Judged:
    """Evidence compared with its limit.

    point: the figure at the observed rate, not a bound. limit: None for an attack without a limit. row: further columns
    of the question. For identifiers these are `shape` (if planted), `partly` (the number that survived only in part)
    and `precision`. `precision` holds the number of masked runs of words, the share of these runs that touch an
    identifier, and the share's interval; share and interval are None without runs. If a stated law shows the limit
    kept, the further column is `unrefuted`, the number of rewrites that did not refute the law. turned: True if an
    attack was right less often than by chance (`below_chance`), so it cannot pass. unanswered: True if the limit was
    kept but answers of a service were missing, so the status is open. of_texts: a pair per trial, the text and a flag;
    the flag is True for a right guess, inference or link, or a surviving identifier.
    """

    evidence: Evidence
    point: float
    limit: Limit | None
    status: Status
    row: Mapping[str, Any] = field(default_factory=dict)
    turned: bool = False
    unanswered: bool = False
    of_texts: Sequence[tuple[str, bool]] = field(default=(), repr=False)

    @property
    def attack(self) -> str:
        """The name of the attack, attacker or kind of identifier."""
        return self.evidence.of

    @property
    def measure(self) -> str:
        """The measure of `point` and `limit`."""
        return self.evidence.scale.measure

    @property
    def shape(self) -> str | None:
        """For planted identifiers, the form and place in which they were planted."""
        return self.row.get("shape")

    @property
    def successes(self) -> int:
        """The number of right trials; for identifiers, the number that survived."""
        data = self.evidence.data
        return 0 if isinstance(data, Computed) else data.right

    @property
    def misses(self) -> int:
        """The number of confident guesses that are wrong."""
        data = self.evidence.data
        return data.beyond.misses if isinstance(data, Confident) else 0

    @property
    def trials(self) -> int:
        """The number of trials; under a law, the number of pairs of texts."""
        return self.evidence.data.n


@dataclass(frozen=True)
class Verdict:
    """The result of a gate.

    attacks: all judged limits, the deciding one first. answers: counts of the rewrites' answers. scope: the adversaries
    and releases that the verdict covers.
    """

    trials: int
    attacks: Sequence[Judged]
    answers: Answers = NONE
    scope: Scope = field(default_factory=Scope)

    @property
    def status(self) -> Status:
        """The heaviest status of all judged limits."""
        return heaviest(judged.status for judged in self.attacks)

    @classmethod
    def of(cls, judged: Sequence[Judged], trials: int) -> Verdict:
        """Return the verdict on everything that was judged."""
        return cls(trials, sorted(judged, key=_decisive))


Measured = Callable[[int, int], Sequence[Hits | Confident]]
"""Maps (first, count) to the counts for each limit in the fresh trials first, ..., first + count - 1.

The counts are `Confident` for a limit on the tail; its thresholds must not depend on these trials.
"""


def decide(
    measure: Measured,
    limits: Mapping[str, Limit | None],
    budget: int,
    candidates: int,
    *,
    errors: Errors = STANDARD,
    beside: int = 0,
) -> Verdict:
    """Draw trials until every limit is shown kept, one limit is shown exceeded, or the budget is spent.

    limits: the limit of each attack by name, in the order of the counts that `measure` returns; an attack whose limit
    is None is always open. budget: the largest number of trials. beside: the number of limits that are judged elsewhere
    and share alpha. Raises UserError for a limit that no success rate exceeds, and for a budget below 1.
    """
    if budget < 1:
        raise UserError(f"the budget must be at least one rewrite, got {budget}", "EPS-A115")
    limited = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in limited.items():
        if limit.scale.options is not None and not 0 < limit.rate < 1:
            raise UserError(
                f"no success rate exceeds a loss of {limit.allowed:g} nats ({name}); give a lower limit", "EPS-A116"
            )
    seen: dict[str, Hits | Confident] = {}
    trials, each = 0, dict.fromkeys(limits, Status.OPEN)
    settled, turned = False, dict.fromkeys(limits, False)
    while trials < budget and not settled:
        count = min(max(_FIRST, trials // _GROWTH), budget - trials)
        for name, more in zip(limits, measure(trials, count), strict=True):
            seen[name] = _sum(seen[name], more) if name in seen else more
        trials += count
        for name, limit in limited.items():
            data = seen[name]
            each[name] = _status(*wealth(data, limit), len(limited) + beside, errors)
            turned[name] = isinstance(data, Hits) and below_chance(data.right, trials, candidates)
            if each[name].passes and turned[name]:
                each[name] = Status.OPEN
        settled = heaviest(each[name] for name in limited) is not Status.OPEN
    judged = []
    for name, data in seen.items():
        scale = Scale.loss(candidates) if isinstance(data, Hits) else Scale.tail(candidates)
        evidence = Evidence(name, By.ATTACK, scale, data, covers=Covers.THESE)
        judged.append(Judged(evidence, point(evidence), limits[name], status=each[name], turned=turned[name]))
    return Verdict.of(judged, trials)


def _sum(seen: Hits | Confident, more: Hits | Confident) -> Hits | Confident:
    if isinstance(seen, Hits) and isinstance(more, Hits):
        return seen + more
    if isinstance(seen, Confident) and isinstance(more, Confident):
        return seen + more
    raise TypeError("an attack counts the same in every batch")


def judge(pieces: Sequence[Evidence], limit: Limit, *, tests: int, errors: Errors) -> Judged:
    """Judge evidence about one figure, from a number of trials or sets that was fixed beforehand.

    tests: the number of limits that share alpha.
    """
    word, evidence = decisive(pieces, limit, errors.alpha / tests, errors.beta)
    return Judged(evidence, point(evidence), limit, status=word)


def point(evidence: Evidence) -> float:
    """Return the figure at the observed rate; this is not a bound.

    For a computation, return its upper bound if that is finite, else its lower bound (0 for a p-value above 0.05).
    """
    data = evidence.data
    if isinstance(data, Computed):
        return data.high if math.isfinite(data.high) else data.low if data.error <= _NOTABLE else 0.0
    if isinstance(data, Means) and data.each == 1:
        return evidence.scale.figure(data.mean)
    if isinstance(data, Confident):
        return difference(*data.beyond, data.n, evidence.scale.candidates)
    return evidence.scale.figure(data.right / data.n)


def fewest_texts(rate: float, tests: int, *, errors: Errors) -> int:
    """Return the fewest texts that could show a limit `rate` kept, and that could also show it exceeded."""
    within = math.log(errors.beta) / math.log1p(-rate)  # if no identifier survives
    beyond = math.log(errors.alpha / tests) / math.log(rate)  # if all survive
    return max(math.ceil(within), math.floor(beyond) + 1)


def enough_texts(rate: float, tests: int, *, errors: Errors, share: float | None = None) -> int:
    """Return a number of texts with which a true share (default rate / 4) passes with probability 1 - beta or more."""
    share = rate / 4 if share is None else share
    texts = fewest_texts(rate, tests, errors=errors)
    while binom.cdf(_most_survivors(texts, rate, errors), texts, share) < 1 - errors.beta:
        texts += -(-texts // 10)
    return texts


def fewest_sets(rate: float, tests: int, *, expected: float, spread: float, errors: Errors) -> int | None:
    """Return the fewest sets, to within a tenth, that could show a limit `rate` on a mean kept or exceeded.

    expected, spread: the assumed mean and standard deviation of the sets' shares if the limit is kept. If the limit is
    exceeded, all shares are assumed to be 1. Returns None if more than a million sets are needed.
    """
    sets = 10
    while sets <= _MOST_SETS:
        within = expected + spread * np.resize([1.0, -1.0], sets)
        if (
            interval(within, 2 * errors.beta, fixed=True)[1] <= rate
            and interval(np.ones(sets), 2 * errors.alpha / tests, fixed=True)[0] > rate
        ):
            return sets
        sets += -(-sets // 10)
    return None


def least_rate_found(texts: int, rate: float, tests: int, *, errors: Errors) -> float:
    """Return the smallest share that is shown to exceed the rate with probability 1 - beta; infinity if none."""
    survivors = int(binom.isf(errors.alpha / tests, texts, rate)) + 1
    if survivors > texts:
        return math.inf
    return float(betaincinv(survivors, texts - survivors + 1, 1 - errors.beta))


def _most_survivors(texts: int, rate: float, errors: Errors) -> int:
    """Return the largest number of survivors with which a kind passes; -1 if it never does."""
    survivors = int(binom.ppf(errors.beta, texts, rate))
    return survivors if binom.cdf(survivors, texts, rate) <= errors.beta else survivors - 1


def limit_of_increase(baseline: Estimate, increase: float, candidates: int) -> Limit:
    """Return the limit that separates a baseline's loss from a loss that is larger by `increase` nats."""
    middle = baseline.point + increase / 2
    if baseline.upper > middle:
        source = f"the baseline's upper bound, at {baseline.trials:,} trials"
        return Limit(baseline.upper, Scale.loss(candidates), source, of_baseline=True)
    source = f"the baseline's {baseline.point:.2f} and half of {increase:g}"
    return Limit(middle, Scale.loss(candidates), source, of_baseline=True)


def most_missed(misses: int, trials: int, *, errors: Errors) -> float:
    """Return an upper bound of the share of trials with wrong confident guesses, at error beta, to two digits."""
    upper = clopper_pearson(misses, trials, 2 * errors.beta)[1]
    unit = 10.0 ** (math.floor(math.log10(upper)) - 1)
    return min(1.0, math.ceil(upper / unit) * unit)


def least_tail_found(
    trials: int, limit: float, candidates: int, attacks: int = 1, *, missed: float, errors: Errors
) -> float:
    """Return the smallest delta at 4 nats that is shown to exceed the limit with probability 1 - beta, or infinity.

    missed: an upper bound of the share of trials with a wrong confident guess. The computation assumes numbers of hits
    and misses. The assumed hits are too many with probability at most beta / 2, and the assumed misses too few with
    probability at most beta / 2.
    """
    weight = WEIGHT / (candidates - 1)
    misses = int(binom.isf(errors.beta / 2, trials, missed))
    largest = 1 - (1 + weight) * missed  # if all other trials are hits

    def power(delta: float) -> float:
        hits = int(binom.ppf(errors.beta / 2, trials, delta + weight * missed))
        sure = Sure(min(hits, trials - misses), misses)
        return log_wealth_of_tail(sure, trials, limit, candidates, above=True) - math.log(attacks / errors.alpha)

    if largest <= limit or power(largest) < 0:
        return math.inf
    return float(brentq(power, limit, largest, xtol=1e-9))


def least_found(trials: int, limit: float, candidates: int, attacks: int = 1, *, errors: Errors) -> float:
    """Return the smallest loss, in nats, that is shown to exceed the limit with probability 1 - beta, or infinity."""
    bound = success_bound(limit, candidates)

    def power(p: float) -> float:
        successes = int(binom.ppf(errors.beta, trials, p))
        return log_wealth(successes, trials, bound, above=True) - math.log(attacks / errors.alpha)

    if power(1.0) < 0:
        return math.inf
    return loss_at(float(brentq(power, bound, 1.0, xtol=1e-9)), candidates)


def fewest_rewrites(limit: float, candidates: int, errors: Errors) -> int | None:
    """Return about how many rewrites show that an attack at chance keeps a limit, in nats; None if over MANY."""
    bound, trials = success_bound(limit, candidates), 1
    while log_wealth(trials // candidates, trials, bound, above=False) < math.log(1 / errors.beta):
        trials += -(-trials // 10)
        if trials > MANY:
            return None
    return trials


def _status(above: float, below: float, tests: int, errors: Errors) -> Status:
    if above >= math.log(tests / errors.alpha):
        return Status.BEYOND
    return Status.NOT_EXCEEDED if below >= math.log(1 / errors.beta) else Status.OPEN


def _decisive(judged: Judged) -> tuple[int, float]:
    """Return the sort key of judged limits: the heaviest status first, then the figure nearest to its limit."""
    room = -math.inf if judged.limit is None else judged.limit.allowed - judged.point
    if judged.limit is not None and judged.limit.at_least:
        room = -room
    return list(Status).index(judged.status), room
