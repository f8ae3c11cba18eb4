"""Paired comparisons: McNemar's test, the strongest attacks, and Holm's correction over all rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.comparison import (
    compare,
    compare_strongest,
    holm,
    judged,
    lone_rows,
    paired_rows,
)


def test_paired_comparison_is_a_fair_coin_over_the_discordant_trials() -> None:
    first = np.array([True] * 30 + [False] * 10 + [True] * 9 + [False] * 2)
    second = np.array([True] * 30 + [False] * 10 + [False] * 9 + [True] * 2)
    comparison = compare(first, second)
    assert (comparison.trials, comparison.first_only, comparison.second_only) == (51, 9, 2)
    assert comparison.p_value == pytest.approx(2 * sum(math.comb(11, i) for i in range(3)) / 2**11)
    assert compare(first, first).p_value == 1
    (row, _) = paired_rows("songs", {"lexical": first}, {"lexical": second}, 2)
    assert judged([row], "tem", "mvc", 0.1)[0]["finding"] == (
        "mvc leaks less than tem under the attacks on both, p = 0.065"
    )
    assert judged([row], "tem", "mvc", 0.01)[0]["finding"].startswith("no evidence that tem and mvc leak differently")


def test_holm() -> None:
    """By hand: 4 x 0.01, then 3 x 0.013 and 2 x 0.03, never below the one before."""
    assert holm([0.03, 0.01, 0.013, 0.5]) == pytest.approx([0.06, 0.04, 0.04, 0.5])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def simulated(rng: np.random.Generator, rates: list[float], trials: int) -> dict[str, NDArray[np.bool_]]:
    """Attacks on one mechanism, dependent as in an audit: all look at the same rewrites."""
    luck = rng.random(trials)
    return {str(i): (0.7 * luck + 0.3 * rng.random(trials)) < rate for i, rate in enumerate(rates)}


def told_apart(runs: int, corrected: bool) -> int:
    """In how many of these calls over 8 rows two identical mechanisms are told apart at alpha 0.05."""
    rng, count = np.random.default_rng(0), 0
    for _ in range(runs):
        p = [compare(rng.random(400) < 0.7, rng.random(400) < 0.7).p_value for _ in range(8)]
        count += min(holm(p) if corrected else p) <= 0.05
    return count


@pytest.mark.slow
def test_identical_mechanisms_are_not_told_apart() -> None:
    """Beyond 5 % of 200 calls: once in 10^6. Without the correction it was 29 %."""
    limit = stats.binom.isf(1e-6, 200, 0.05)
    assert told_apart(200, corrected=True) <= limit < told_apart(200, corrected=False)


def test_the_strongest_of_several_attacks_keeps_the_error() -> None:
    """Two mechanisms that leak alike under unlike attacks, 3 on each: beyond 5 % of 400 runs once in 10^6."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        first, other = simulated(rng, [0.6, 0.7, 0.7], 300), simulated(rng, [0.7, 0.7, 0.5], 300)
        wrong += compare_strongest(first, other).p_value <= 0.05
    assert wrong <= stats.binom.isf(1e-6, 400, 0.05)


def test_an_attack_on_one_side_alone_compares_nothing() -> None:
    """tem leaks less under the attack on both; what likelihood shows of it alone is said beside that."""
    rng = np.random.default_rng(2)
    tem = {"lexical": rng.random(1000) < 0.6, "likelihood": rng.random(1000) < 0.9}
    mvc = {"lexical": rng.random(1000) < 0.7}
    rows = {row["attack"]: row for row in judged(paired_rows("songs", tem, mvc, 2), "tem", "mvc", 0.01)}
    assert {attack: row["attacks"] for attack, row in rows.items()} == {"strongest": "lexical", "lexical": "lexical"}
    assert rows["strongest"]["p value"] == min(1, 2 * stats.binomtest(*discordant(tem, mvc), alternative="less").pvalue)
    assert rows["strongest"]["finding"].startswith("tem leaks less than mvc under the attacks on both, p = ")
    for sides, names in (((tem, mvc), ("tem", "mvc")), ((mvc, tem), ("mvc", "tem"))):
        (alone,) = lone_rows("songs", sides, names, 2, alpha=0.01)
        loss = estimate(int(tem["likelihood"].sum()), 1000).loss
        assert alone.keys() == rows["lexical"].keys()
        assert (alone["attack"], alone["attacks"], alone["p Holm"]) == ("likelihood", None, None)
        assert alone["finding"] == (
            f"likelihood attacked only tem and shows a loss of at least {loss:.2f} nats; "
            "its result for mvc is not known"
        )


def discordant(first: dict[str, NDArray[np.bool_]], second: dict[str, NDArray[np.bool_]]) -> tuple[int, int]:
    only = first["lexical"] & ~second["lexical"]
    return int(only.sum()), int((first["lexical"] ^ second["lexical"]).sum())


def test_without_an_attack_on_both_nothing_is_compared() -> None:
    right = np.ones(100, bool)
    sides = {"lexical": right}, {"length": ~right}
    assert paired_rows("songs", *sides, 2) == []
    findings = [row["finding"] for row in lone_rows("songs", sides, ("tem", "mvc"), 2, alpha=0.01)]
    assert [finding.partition(" attacked")[0] for finding in findings] == ["lexical", "length"]
    assert "length attacked only mvc and shows no loss; its" in findings[1]
    few = {attack: right[:7] for side in sides for attack, right in side.items()}
    for row in lone_rows("songs", (few, {}), ("tem", "mvc"), 2, alpha=0.01):
        assert "shows no loss (not testable" in row["finding"]


def test_who_is_named_less_often_than_by_chance_leaks_no_less() -> None:
    """An attack that always names the other of two candidates knows the source."""
    turned, chance = np.zeros(300, bool), np.random.default_rng(0).random(300) < 0.5
    for first, second in ((turned, chance), (chance, turned)):
        for row in judged(paired_rows("songs", {"lexical": first}, {"lexical": second}, 2), "a", "b", 0.01):
            assert row["p value"] == 1
            assert row["finding"].startswith("no evidence")
