"""Exact tests of an audit for differences from the accepted baseline, corrected for the number of tests.

If the audit has the baseline's trials, the test is McNemar's exact test (`comparison`). Its null hypothesis is only
that a guess about a trial is as likely to be right as before; the noise may be fresh or the same. For other trials, the
test is Fisher's exact test of two samples. The rows of an audit share its level by Holm's step-down correction (Holm
1979), which is valid however the rows depend on each other. The audits of a year share alpha by a spending function
(`level`): in a year without a change, the probability of a false alarm is at most alpha, for any number of audits.
Losses are in nats.

A row is *not testable* if no outcome of the audit could have shown that its loss has grown: with the baseline's hits,
the p-value would exceed Holm's threshold for the remaining rows even if every guess in the audit were right. If a row's
number of trials alone rules out any finding, the row does not count in the correction (Tarone 1990,
`claims.verdicts.divisor`). If only the baseline's hits rule out a finding, the row still counts: chance selects such
rows, so leaving them out would raise the probability of an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import fisher_exact

from epsilometer.auditing.claims.verdicts import divisor
from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.evidence.status import Change
from epsilometer.auditing.results.comparison import Outcomes, compare, holm
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget

WORSE, BETTER, UNCHANGED, NEW, GONE, NOT_TESTABLE = Change
PAIRED, TWO_SAMPLES = "McNemar's exact test on the same trials", "Fisher's exact test on other trials"
SCHEDULED = 52  # the first 52 audits of a year share one half of alpha evenly; further audits share the other half

_COUNTED = [WORSE, BETTER, NEW, GONE, NOT_TESTABLE, UNCHANGED]  # in the order in which messages list them
_NAMED = 10  # maximum number of rows or changes listed in a message; further ones are only counted


class Row(NamedTuple):
    """The columns that identify a row of an audit's estimates; a row is one loss."""

    dataset: str
    mechanism: str
    epsilon: float | None  # None: the mechanism has no budget
    attack: str

    def __str__(self) -> str:
        return f"{self.mechanism} on {self.dataset}{at_budget(self.epsilon)}, attack {self.attack}"


@dataclass(frozen=True)
class Measured:
    """A row of an audit, as measured.

    hits: [trials], True if the adversary was right; for a figure of a question, outcomes in [0, 1], larger if worse.
    trial_set: hash of the candidate sets and targets. rewrites: hash of the attacked rewrites, empty if these are not
    stored. measure: the name of the estimate's measure. of_question: True for a figure of a question. The bounds of
    such a figure do not follow from the number of successes alone.
    """

    hits: Outcomes
    trial_set: str
    rewrites: str
    estimate: Estimate
    measure: str = "loss"
    of_question: bool = False

    @classmethod
    def of_figure(
        cls, outcomes: Outcomes, trial_set: str, bounds: tuple[float, float, float], measure: str, alpha: float
    ) -> Measured:
        """Return a figure of a question. bounds: lower bound, value at the observed rate, upper bound."""
        low, point, high = bounds
        count, right = len(outcomes), round(float(np.sum(outcomes)))
        ceiling = high if math.isfinite(high) else low
        estimate = Estimate(right, count, 2, alpha, delta=0.0, loss=low, point=point, upper=high, ceiling=ceiling)
        return cls(outcomes, trial_set, "", estimate, measure=measure, of_question=True)


@dataclass(frozen=True)
class Drift:
    """A row's change since the baseline. before, now: None if the row is new or gone.

    p_value: two-sided, corrected for the number of rows; None if there are too few trials to show any change.
    identical: True if rewrites and hits are the same as in the baseline, so that nothing could differ.
    """

    row: Row
    verdict: Change
    before: Estimate | None = None
    now: Estimate | None = None
    test: str | None = None
    p_value: float | None = None
    identical: bool = False
    measure: str = "loss"

    def sentence(self) -> str:
        """Return the row, the old and the new loss with their intervals, and the evidence."""
        if self.before is None or self.now is None:
            return f"{self.row}: {self.verdict}, {_interval(self.before or self.now, self.measure)}"
        if self.p_value is None:
            return f"{self.row}: {self.verdict}, {_interval(self.before, self.measure)} before"
        return (
            f"{self.row}: {self.verdict}, {_interval(self.before, self.measure)} before, "
            f"{_interval(self.now, self.measure)} now; "
            f"p = {self.p_value:.2g} by {self.test}"
        )


def level(alpha: float, earlier: int) -> float:
    """Return the level of an audit after `earlier` audits in the same year; all levels sum to at most alpha.

    The first 52 audits spend alpha/104 each. Of the further audits, the j-th spends (alpha/2) * 6 / (pi j)^2.
    """
    beyond = earlier - SCHEDULED + 1
    return alpha / 2 / SCHEDULED if beyond <= 0 else alpha / 2 * 6 / (math.pi * beyond) ** 2


def judge(before: Mapping[Row, Measured], now: Mapping[Row, Measured], level: float) -> list[Drift]:
    """Return the verdict on every row of the baseline or of the audit, the most serious first.

    level: this audit's level, from the function `level`. Raises UserError if the number of candidates has changed,
    because successes cannot be compared then.
    """
    shared = sorted(before.keys() & now.keys())
    tests = [_test(row, before[row], now[row]) for row in shared]
    corrected = _corrected(tests, level)
    counted = [p for p in corrected if p is not None]
    remaining = len(counted) - sum(p <= level for p in counted)
    drifts = []
    for row, test, p in zip(shared, tests, corrected, strict=True):
        old, new = before[row], now[row]
        if p is not None and p <= level:
            verdict = WORSE if new.hits.mean() > old.hits.mean() else BETTER
        else:
            verdict = NOT_TESTABLE if p is None or test.all_right > level / remaining else UNCHANGED
        kept_alike = bool(old.rewrites) and old.rewrites == new.rewrites
        identical = test.p == 1 and kept_alike and np.array_equal(old.hits, new.hits)
        drift = Drift(row, verdict, old.estimate, new.estimate, test=test.name, p_value=p, identical=identical)
        drifts.append(replace(drift, measure=old.measure))
    for row in sorted(now.keys() - before.keys()):
        drifts.append(Drift(row, NEW, now=now[row].estimate, measure=now[row].measure))
    for row in sorted(before.keys() - now.keys()):
        drifts.append(Drift(row, GONE, before=before[row].estimate, measure=before[row].measure))
    order = [WORSE, GONE, NEW, BETTER, NOT_TESTABLE, UNCHANGED]
    return sorted(
        drifts, key=lambda drift: (order.index(drift.verdict), 1.0 if drift.p_value is None else drift.p_value)
    )


def message(drifts: Sequence[Drift], level: float, changes: Sequence[str], unknown: Sequence[str] = ()) -> str:
    """Return the result in words: the verdicts, the rows behind them, the changes and the failed look-ups."""
    groups = {verdict: [drift for drift in drifts if drift.verdict == verdict] for verdict in _COUNTED}
    counts = [f"{verdict}: {len(group)}" for verdict, group in groups.items() if group]
    tested, old = len(_tested(drifts)), sum(drift.before is not None for drift in drifts)
    lines = [
        f"{', '.join(counts)} ({tested} of the baseline's {old} rows tested, at level {level:.2g}, corrected "
        "for their number by Holm's method)"
    ]
    lines += blind_spots(drifts)
    for verdict in (WORSE, BETTER, NEW, GONE):
        lines += _first([f"- {drift.sentence()}" for drift in groups[verdict]])
    if groups[NOT_TESTABLE]:
        lines.append(
            f"{len(groups[NOT_TESTABLE])} not testable: even if every guess were right now, a larger loss would not "
            "be shown; the baseline's guesses were nearly all right, or there are too few trials"
        )
    same = sum(drift.identical for drift in groups[UNCHANGED])
    if same:
        lines.append(
            f"{same} of {tested} have the baseline's rewrites and guesses: with the same noise and inputs nothing "
            "can differ; use fresh noise to measure them again"
        )
    lines.append("changed since the baseline:" if changes else "nothing is known to have changed since the baseline")
    lines += _first([f"- {change}" for change in changes])
    if unknown:
        lines += [
            "no answer from these sources, so their changes are unknown:",
            *_first([f"- {name}" for name in unknown]),
        ]
    return "\n".join(lines)


def blind_spots(drifts: Sequence[Drift]) -> list[str]:
    """Return sentences on what the audit leaves unknown, each with a remedy. A re-audit with any sentence fails."""
    gone, untestable = (sum(drift.verdict == verdict for drift in drifts) for verdict in (GONE, NOT_TESTABLE))
    sentences = []
    if gone:
        sentences.append(
            f"rows of the baseline that are gone: {gone}; whether they are worse is unknown. If they were removed on "
            "purpose, "
            "accept this audit as the new baseline (`epsilometer results accept`)"
        )
    if not _tested(drifts):
        remedy = (
            "; audit with more trials (trials.count) or candidates, then accept the audit "
            "(`epsilometer results accept`)"
        )
        sentences.append("no row could be tested, so no change is known" + (remedy if untestable else ""))
    return sentences


class _Test(NamedTuple):
    """A test of one row, with its two-sided p-value.

    all_right: the p-value if all guesses of the audit were right, given the baseline's guesses. least: the smallest
    p-value that is possible with the numbers of trials of the baseline and of the audit.
    """

    name: str
    p: float
    all_right: float
    least: float


def _test(row: Row, before: Measured, now: Measured) -> _Test:
    old, other = before.estimate, now.estimate
    if old.candidates != other.candidates:
        raise UserError(
            f"{row}: guesses among {old.candidates} and among {other.candidates} candidates cannot be compared; "
            "accept a new baseline (epsilometer results accept)",
            "EPS-R005",
        )
    if before.trial_set == now.trial_set and old.trials == other.trials:
        misses = int(np.count_nonzero(before.hits < 1))  # the trials that would differ if all guesses were right now
        least = (min(1.0, 2.0 ** (1 - differing)) for differing in (misses, old.trials))
        return _Test(PAIRED, compare(before.hits, now.hits).p_value, *least)
    right, right_now = _counts(before.hits, now.hits)
    counts = ((right, right_now), (right, other.trials), (0, other.trials))
    return _Test(
        TWO_SAMPLES,
        *(float(fisher_exact([[a, old.trials - a], [b, other.trials - b]]).pvalue) for a, b in counts),
    )


def _counts(before: Outcomes, now: Outcomes) -> tuple[int, int]:
    """Return the number of large outcomes before and now. An outcome is large if it is above the joint median.

    If all outcomes are 0 or 1, an outcome of 1 is large. If both audits have the same distribution, outcomes are
    exchangeable, and the joint median does not depend on their order. So Fisher's test of these counts is exact.
    """
    every = np.concatenate([before, now])
    middle = 0.5 if np.isin(every, (0, 1)).all() else float(np.median(every))
    return int(np.count_nonzero(before > middle)), int(np.count_nonzero(now > middle))


def _corrected(tests: Sequence[_Test], level: float) -> list[float | None]:
    """Return Holm's p-value of each test; None for a test with so few trials that no outcome could decide it."""
    largest = level / divisor([test.least for test in tests], level)
    corrected = iter(holm([test.p for test in tests if test.least <= largest]))
    return [next(corrected) if test.least <= largest else None for test in tests]


def _tested(drifts: Sequence[Drift]) -> list[Drift]:
    return [drift for drift in drifts if drift.verdict in (WORSE, BETTER, UNCHANGED)]


def _interval(estimate: Estimate | None, measure: str) -> str:
    assert estimate is not None  # a drift has an estimate before or now
    upper = f"{estimate.upper:.2f}" if math.isfinite(estimate.upper) else f"above {estimate.ceiling:.2f}"
    return (
        f"{measure} {estimate.point:.2f} ({estimate.loss:.2f} to {upper})"
        if math.isfinite(estimate.point)
        else f"{measure} of at least {estimate.loss:.2f}"
    )


def _first(lines: list[str]) -> list[Any]:
    return lines if len(lines) <= _NAMED else [*lines[: _NAMED - 1], f"- and {len(lines) - _NAMED + 1} more"]


def numbers(estimate: Estimate | None) -> list[tuple[str, float | None]]:
    """Return the numbers of an estimate; None for infinity, which JSON lacks."""
    numbers = (estimate.loss, estimate.point, estimate.upper) if estimate else (None, None, None)
    shown = (None if n is None or not math.isfinite(n) else round(n, 4) for n in numbers)
    return list(zip(("loss", "point", "upper"), shown, strict=True))
