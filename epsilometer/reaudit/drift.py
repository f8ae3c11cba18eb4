"""Whether an audit differs from the accepted baseline: exact tests, corrected for how many are made.

Where the trials are those of the baseline, McNemar's exact test (`comparison`), which supposes only that a trial is
as likely to be guessed as before, whether the noise is fresh or shared. Where they are not, Fisher's exact test of two
samples. The rows of an audit share its level by Holm's step-down correction (Holm 1979), which holds under any
dependence between them. The audits of a year share alpha by a spending function (`level`): a year without a change
raises a false alarm with probability at most alpha, however many audits it has. Losses are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.results.comparison import compare, holm
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget

WORSE, BETTER, UNCHANGED, NEW, GONE = "worse", "better", "no evidence of change", "new", "gone"
PAIRED, TWO_SAMPLES = "McNemar's exact test on the same trials", "Fisher's exact test on other trials"
SCHEDULED = 52  # audits of a year that share one half of alpha evenly; those beyond share the other half

_NAMED = 10  # rows or changes in one message before the rest is counted


class Row(NamedTuple):
    """A row of an audit's estimates: what one loss is of."""

    dataset: str
    mechanism: str
    epsilon: float | None  # None: the mechanism has no budget
    attack: str

    def __str__(self) -> str:
        return f"{self.mechanism} on {self.dataset}{at_budget(self.epsilon)}, attack {self.attack}"


@dataclass(frozen=True)
class Measured:
    """A row of an audit, as measured.

    hits: [trials], whether the adversary named the source; trial_set: hash of the candidate sets and targets;
    rewrites: hash of what was attacked.
    """

    hits: NDArray[np.bool_]
    trial_set: str
    rewrites: str
    estimate: Estimate


@dataclass(frozen=True)
class Drift:
    """before, now: None where a row is new or gone; p_value: two-sided, corrected for the number of rows.

    identical: the same rewrites with the same hits, so that nothing could differ.
    """

    row: Row
    verdict: str
    before: Estimate | None = None
    now: Estimate | None = None
    test: str | None = None
    p_value: float | None = None
    identical: bool = False

    def sentence(self) -> str:
        """The row, the old and the new loss with their intervals, and the evidence."""
        if self.before is None or self.now is None:
            return f"{self.row}: {self.verdict}, {_interval(self.before or self.now)}"
        return (
            f"{self.row}: {self.verdict}, {_interval(self.before)} before, {_interval(self.now)} now; "
            f"p = {self.p_value:.2g} by {self.test}"
        )


def level(alpha: float, earlier: int) -> float:
    """The level of an audit after `earlier` others in the same year; the levels of all audits sum to at most alpha.

    The first 52 spend alpha/104 each, the j-th beyond them (alpha/2) * 6 / (pi j)^2.
    """
    beyond = earlier - SCHEDULED + 1
    return alpha / 2 / SCHEDULED if beyond <= 0 else alpha / 2 * 6 / (math.pi * beyond) ** 2


def judge(before: Mapping[Row, Measured], now: Mapping[Row, Measured], level: float) -> list[Drift]:
    """The verdict on every row of the baseline or of the audit, the gravest first.

    level: of this audit, as `level` gives it. Raises UserError for guesses among different numbers of candidates, whose
    successes cannot be compared.
    """
    shared = sorted(before.keys() & now.keys())
    tests = [_test(row, before[row], now[row]) for row in shared]
    drifts = []
    for row, (name, p), corrected in zip(shared, tests, holm([p for _, p in tests]), strict=True):
        old, new = before[row], now[row]
        up = new.estimate.success_rate > old.estimate.success_rate
        verdict = UNCHANGED if corrected > level else WORSE if up else BETTER
        identical = p == 1 and old.rewrites == new.rewrites and np.array_equal(old.hits, new.hits)
        drifts.append(
            Drift(row, verdict, old.estimate, new.estimate, test=name, p_value=corrected, identical=identical)
        )
    drifts += [Drift(row, NEW, now=now[row].estimate) for row in sorted(now.keys() - before.keys())]
    drifts += [Drift(row, GONE, before=before[row].estimate) for row in sorted(before.keys() - now.keys())]
    order = [WORSE, GONE, NEW, BETTER, UNCHANGED]
    return sorted(
        drifts, key=lambda drift: (order.index(drift.verdict), 1.0 if drift.p_value is None else drift.p_value)
    )


def message(drifts: Sequence[Drift], level: float, changes: Sequence[str], unknown: Sequence[str] = ()) -> str:
    """The outcome in words: the verdicts, the rows behind them, what changed and what could not be looked up."""
    groups = {
        verdict: [drift for drift in drifts if drift.verdict == verdict] for verdict in (WORSE, BETTER, NEW, GONE)
    }
    still = [drift for drift in drifts if drift.verdict == UNCHANGED]
    tested = len(groups[WORSE]) + len(groups[BETTER]) + len(still)
    counts = [f"{verdict}: {len(group)}" for verdict, group in [*groups.items(), (UNCHANGED, still)] if group]
    lines = [f"{', '.join(counts)} (of {tested} tested at level {level:.2g}, corrected for their number by Holm)"]
    for group in groups.values():
        lines += _first([f"- {drift.sentence()}" for drift in group])
    same = sum(drift.identical for drift in still)
    if same:
        lines.append(
            f"{same} of {tested} are the baseline's own rewrites, guessed alike: with the same noise and inputs "
            "nothing can differ; ask for fresh noise to measure them again"
        )
    lines.append("changed since the baseline:" if changes else "nothing is known to have changed since the baseline")
    lines += _first([f"- {change}" for change in changes])
    if unknown:
        lines += ["could not be asked, hence unknown:", *_first([f"- {name}" for name in unknown])]
    return "\n".join(lines)


def _test(row: Row, before: Measured, now: Measured) -> tuple[str, float]:
    old, other = before.estimate, now.estimate
    if old.candidates != other.candidates:
        raise UserError(
            f"{row}: guesses among {old.candidates} and among {other.candidates} candidates cannot be compared; "
            "accept a new baseline (epsilometer accept)"
        )
    if before.trial_set == now.trial_set and old.trials == other.trials:
        return PAIRED, compare(before.hits, now.hits).p_value
    table = [[old.successes, old.trials - old.successes], [other.successes, other.trials - other.successes]]
    return TWO_SAMPLES, float(fisher_exact(table).pvalue)


def _interval(estimate: Estimate | None) -> str:
    assert estimate is not None  # a drift has one of two
    upper = f"{estimate.upper:.2f}" if math.isfinite(estimate.upper) else f"above {estimate.ceiling:.2f}"
    return (
        f"loss {estimate.point:.2f} ({estimate.loss:.2f} to {upper})"
        if math.isfinite(estimate.point)
        else (f"loss of at least {estimate.loss:.2f}")
    )


def _first(lines: list[str]) -> list[Any]:
    return lines if len(lines) <= _NAMED else [*lines[: _NAMED - 1], f"- and {len(lines) - _NAMED + 1} more"]
