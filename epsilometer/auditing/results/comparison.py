"""The comparison of two mechanisms on the same trials: McNemar's exact test (McNemar 1947).

Both mechanisms are attacked on the same candidate sets with the same targets. The test uses only the trials in which
the adversary is right about one mechanism but not about the other. If both mechanisms leak equally, each of these
trials favours either mechanism with probability 1/2. Numeric outcomes, such as the share of right links in a set, are
compared by the sign test, which equals McNemar's test for outcomes of 0 or 1. The sign test counts how often one
outcome is larger than the other, and ignores the size of the difference.

For the strongest attacks, "A leaks less than B" means that some attack on B succeeds more often than every attack on A.
For one given attack on B, the test is an intersection-union test: its p-value is the largest of the one-sided p-values
against the attacks on A (Berger 1982). The p-value is multiplied by m for the choice among m attacks on B (Bonferroni),
and by 2 for testing both directions.

An attack that is right less often than by chance (`below_chance`) distinguishes the candidates but names the wrong one.
Its hits do not show that either mechanism leaks less, so its p-value and the p-value of the strongest attacks are set
to 1.

Mechanisms are compared by the attacks that ran on both. Results of attacks on only one mechanism are reported
separately: they measure the leak of that mechanism, and do not show which mechanism leaks less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import below_chance, estimate
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.rounding import NOT_TESTABLE

Outcomes = NDArray[np.bool_] | NDArray[np.float64]
"""bool [trials], True for a right guess; or float [trials], outcomes of another question."""
Right = Mapping[str, NDArray[np.bool_]]
"""By attack, bool [trials]: True for a right guess."""


@dataclass(frozen=True)
class Comparison:
    """The result of a paired comparison.

    first_only, second_only: the number of trials in which only the guess about the first (second) mechanism was right,
    or in which that mechanism's outcome was larger. p_value: two-sided.
    """

    trials: int
    first_only: int
    second_only: int
    p_value: float


def compare(first: Outcomes, second: Outcomes) -> Comparison:
    """Compare two mechanisms by the hits of one attack, or by the outcomes of another figure.

    first, second: the mechanisms' outcomes in the same trials. Raises ValueError if their lengths differ.
    """
    if len(first) != len(second):
        raise ValueError(f"a paired comparison needs the same trials, got {len(first)} and {len(second)}")
    only_first, only_second = int((first > second).sum()), int((second > first).sum())
    p = float(scipy.stats.binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0
    return Comparison(len(first), only_first, only_second, p)


def compare_strongest(first: Mapping[str, Outcomes], second: Mapping[str, Outcomes]) -> Comparison:
    """Compare two mechanisms by the strongest attack on each, which may be different attacks.

    first_only and second_only are counted for each mechanism's attack with most successes, or with the largest sum of
    outcomes.
    """
    best = [max(outcomes.values(), key=lambda each: float(each.sum())) for outcomes in (first, second)]
    p = min(1.0, 2 * min(_leaks_less(first, second), _leaks_less(second, first)))
    shown = compare(*best)
    return Comparison(shown.trials, shown.first_only, shown.second_only, p)


def _leaks_less(first: Mapping[str, Outcomes], second: Mapping[str, Outcomes]) -> float:
    """Return the p-value for the finding that some attack on the second succeeds more often than all on the first."""

    def less(first: Outcomes, second: Outcomes) -> float:
        wins, losses = int((first > second).sum()), int((second > first).sum())
        return float(scipy.stats.binomtest(wins, wins + losses, alternative="less").pvalue) if wins + losses else 1.0

    return min(1.0, len(second) * min(max(less(left, right) for left in first.values()) for right in second.values()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values (Holm 1979).

    If all findings with an adjusted p-value of at most alpha are reported, some finding is wrong with probability at
    most alpha.
    """
    p, count = np.asarray(p_values, float), len(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.maximum.accumulate((count - np.arange(count)) * p[order]), 1)
    return [float(p) for p in adjusted]


def paired_rows(dataset: str, first: Right, second: Right, candidates: int) -> list[dict[str, Any]]:
    """Return a row for the strongest attacks, and a row for each attack that ran on both mechanisms.

    Columns: dataset, attack, attacks (names of the compared attacks), trials, first only, second only, p value.
    """
    both = [attack for attack in first if attack in second]
    pairs = {attack: compare(first[attack], second[attack]) for attack in both}
    if both:
        shared = ({attack: right[attack] for attack in both} for right in (first, second))
        pairs = {STRONGEST: compare_strongest(*shared)} | pairs
    turned = {
        name
        for attack in both
        for hits in (first[attack], second[attack])
        if below_chance(int(hits.sum()), len(hits), candidates)
        for name in (attack, STRONGEST)
    }
    return [
        {"dataset": dataset, "attack": attack, "attacks": ", ".join(both) if attack == STRONGEST else attack}
        | {"trials": pair.trials, "first only": pair.first_only, "second only": pair.second_only}
        | {"p value": 1.0 if attack in turned else pair.p_value}
        for attack, pair in pairs.items()
    ]


def lone_rows(
    dataset: str, sides: Sequence[Right], names: Sequence[str], candidates: int, *, alpha: float
) -> list[dict[str, Any]]:
    """Return a row for each attack that ran on only one mechanism, with its loss at confidence 1 - alpha.

    sides, names: the hits and the names of the first and the second mechanism. The columns are those of `judged`; the
    columns of a comparison are None.
    """
    rows = []
    for side, other, name, spared in (
        (sides[0], sides[1], names[0], names[1]),
        (sides[1], sides[0], names[1], names[0]),
    ):
        for attack in (attack for attack in side if attack not in other):
            hits = side[attack]
            proved = estimate(int(hits.sum()), len(hits), candidates, alpha)
            shows = f"a loss of at least {proved.loss:.2f} nats" if proved.loss else "no loss"
            if proved.ceiling == 0:
                shows = f"no loss ({NOT_TESTABLE}: too few trials to show one)"
            finding = f"{attack} attacked only {name} and shows {shows}; its result for {spared} is not known"
            nothing = dict.fromkeys(("first only", "second only", "p value", "p Holm"))
            of = {"dataset": dataset, "attack": attack, "attacks": None, "trials": len(hits)}
            rows.append({**of, **nothing, "finding": finding})
    return rows


def judged(rows: Sequence[Mapping[str, Any]], first: str, second: str, alpha: float) -> list[dict[str, Any]]:
    """Return the rows with two more columns: `p Holm`, corrected over all rows, and `finding`, a sentence.

    Some finding is wrong with probability at most alpha.
    """
    adjusted = holm([row["p value"] for row in rows])
    return [
        {**row, "p Holm": p, "finding": _sentence(row, p, first, second, alpha=alpha)}
        for row, p in zip(rows, adjusted, strict=True)
    ]


def _sentence(row: Mapping[str, Any], p: float, first: str, second: str, alpha: float) -> str:
    by = "the attacks on both" if row["attack"] == STRONGEST else row["attack"]
    if p > alpha:
        return f"no evidence that {first} and {second} leak differently under {by}, p = {p:.2g}"
    less, more = (first, second) if row["first only"] < row["second only"] else (second, first)
    return f"{less} leaks less than {more} under {by}, p = {p:.2g}"
