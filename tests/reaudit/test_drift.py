"""Drift: each verdict, false alarms over simulated years, power for a planted change, and the message."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import scipy
from scipy.stats import binom, binomtest, fisher_exact

from epsilometer.auditing.claims.verdicts import NOT_TESTABLE
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.reaudit import drift
from epsilometer.reaudit.drift import (
    BETTER,
    GONE,
    NEW,
    PAIRED,
    TWO_SAMPLES,
    UNCHANGED,
    WORSE,
    Measured,
    Row,
    judge,
)
from tests.support.refusals import refused

TRIALS = 400
LEVEL = drift.level(0.01, 0)


def measured(hits: np.ndarray, trials: str = "trials", rewrites: str = "rewrites", candidates: int = 2) -> Measured:
    return Measured(hits, trials, rewrites, estimate(int(hits.sum()), len(hits), candidates))


def shares(rng: np.random.Generator, rows: int, trials: int = TRIALS) -> list[np.ndarray]:
    """For each row the chance of each trial to be guessed: trials differ."""
    return [rng.uniform(0.3, 1, trials) for _ in range(rows)]


def row(number: int) -> Row:
    return Row("songs", "mine", float(number), "lexical")


def audit(rng: np.random.Generator, chances: list[np.ndarray], trials: str = "trials") -> dict[Row, Measured]:
    return {
        row(i): measured(rng.random(len(chance)) < chance, trials, f"noise {rng.integers(1 << 30)}")
        for i, chance in enumerate(chances)
    }


def test_the_levels_of_any_number_of_audits_add_up_to_alpha() -> None:
    assert drift.level(0.01, 0) == drift.level(0.01, 51) == pytest.approx(0.01 / 104)
    assert drift.level(0.01, 52) == pytest.approx(0.005 * 6 / math.pi**2)
    spent = np.cumsum([drift.level(0.01, number) for number in range(20_000)])
    assert spent[51] == pytest.approx(0.005)
    assert 0.00999 < spent[-1] < 0.01


@pytest.mark.parametrize("trials", ["trials", "others"])
def test_a_year_without_a_change_raises_no_false_alarm_too_often(trials: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 years of 52 audits of 3 rows, each with a false alarm with probability at most 0.2, more than 24 have one
    with probability 2e-4. The same tests at alpha each, uncorrected, would raise one in nearly every year."""
    monkeypatch.setattr(scipy.stats, "binomtest", cache(binomtest))  # cached, because the same few counts recur
    remembered = cache(lambda a, b, c, d: fisher_exact([[a, b], [c, d]]))
    monkeypatch.setattr(drift, "fisher_exact", lambda table: remembered(*table[0], *table[1]))
    rng, years, alpha = np.random.default_rng(1), 60, 0.2
    assert binom.sf(24, years, alpha) < 3e-4
    alarmed, uncorrected = 0, 0
    for _ in range(years):
        chances = shares(rng, 3, 50)
        before, changes = audit(rng, chances), []
        for week in range(52):
            now = audit(rng, chances, trials)
            changes.append(
                [change.verdict in (WORSE, BETTER) for change in judge(before, now, drift.level(alpha, week))]
            )
            if week == 0:
                uncorrected += any(
                    change.p_value < alpha for change in judge(before, now, alpha) if change.p_value is not None
                )
        alarmed += any(any(verdicts) for verdicts in changes)
    assert alarmed <= 24
    assert uncorrected > 0, "the tests must be able to raise an alarm at all"


@pytest.mark.parametrize(("trials", "test"), [("trials", PAIRED), ("others", TWO_SAMPLES)])
def test_a_planted_change_is_found(trials: str, test: str) -> None:
    """20 changes of 0.15 in the chance of 1,000 trials of one row of 6, at the level of a weekly audit: missed at most
    once with either test (their power is above 0.99, so that two misses have probability below 0.02)."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(20):
        chances = [rng.uniform(0.5, 0.7, 1000) for _ in range(6)]
        before = audit(rng, chances)
        chances[4] = chances[4] + 0.15
        worst, *others = judge(before, audit(rng, chances, trials), LEVEL)
        missed += (worst.row, worst.verdict, worst.test) != (row(4), WORSE, test)
        assert all(other.verdict == UNCHANGED for other in others)
    assert missed <= 1


def test_a_paired_test_sees_what_other_trials_hide() -> None:
    """A change of 3 trials in 100 of 2,000 that are otherwise guessed alike, as when the noise is shared."""
    rng = np.random.default_rng(3)
    old = rng.random(2000) < 0.7
    new = old | (rng.random(2000) < 0.1)
    (paired,) = judge({row(0): measured(old)}, {row(0): measured(new, rewrites="other")}, LEVEL)
    (apart,) = judge({row(0): measured(old)}, {row(0): measured(new, trials="others")}, LEVEL)
    assert (paired.verdict, apart.verdict) == (WORSE, UNCHANGED)
    assert paired.p_value == pytest.approx(binomtest(0, int((new & ~old).sum())).pvalue)
    table = [[old.sum(), (~old).sum()], [new.sum(), (~new).sum()]]
    assert apart.p_value == pytest.approx(fisher_exact(table).pvalue)


def test_each_verdict_and_their_order() -> None:
    rng = np.random.default_rng(4)
    low, middle, high = (rng.random(TRIALS) < p for p in (0.5, 0.7, 0.98))
    before = {row(i): measured(h) for i, h in enumerate([middle, high, low, middle])}
    now = {row(i): measured(h, rewrites="new") for i, h in ((1, low), (2, high), (3, middle), (4, middle))}
    verdicts = {change.row.epsilon: change.verdict for change in judge(before, now, LEVEL)}
    assert list(verdicts.items()) == [(2, WORSE), (0, GONE), (4, NEW), (1, BETTER), (3, UNCHANGED)]


def test_the_same_noise_cannot_differ_and_the_message_says_so() -> None:
    hits = np.random.default_rng(5).random(TRIALS) < 0.7
    same = judge({row(0): measured(hits)}, {row(0): measured(hits)}, LEVEL)
    assert [(change.verdict, change.identical, change.p_value) for change in same] == [(UNCHANGED, True, 1)]
    assert "nothing can differ" in drift.message(same, LEVEL, [])
    fresh = judge({row(0): measured(hits)}, {row(0): measured(hits, rewrites="fresh")}, LEVEL)
    assert not fresh[0].identical
    assert "nothing can differ" not in drift.message(fresh, LEVEL, [])


def test_the_message_names_cell_losses_intervals_and_what_changed() -> None:
    rng = np.random.default_rng(6)
    old, new = measured(rng.random(TRIALS) < 0.6), measured(np.ones(TRIALS, bool), rewrites="new")
    changes = judge({row(0): old, row(1): old}, {row(0): new, row(2): old}, LEVEL)
    said = drift.message(
        changes, LEVEL, ["mine.py has changed (mechanism-mine)"], ["dataset-x: data set a/b (Timeout)"]
    )
    assert said.startswith("worse: 1, new: 1, gone: 1 (1 of the baseline's 2 rows tested, at level 9.6e-05, corrected")
    before = old.estimate
    assert "mine on songs at epsilon 0, attack lexical: worse" in said
    assert f"loss {before.point:.2f} ({before.loss:.2f} to {before.upper:.2f}) before" in said
    assert f"loss of at least {new.estimate.loss:.2f} now" in said
    assert "- mine.py has changed (mechanism-mine)" in said
    assert "- dataset-x: data set a/b (Timeout)" in said
    many = drift.message(judge({}, {row(i): old for i in range(30)}, LEVEL), LEVEL, [])
    assert "and 21 more" in many
    assert "nothing is known to have changed" in many


def test_guesses_among_other_numbers_of_candidates_are_refused() -> None:
    hits = np.ones(TRIALS, bool)
    with refused("EPS-R005", "2", "4"):
        judge({row(0): measured(hits)}, {row(0): measured(hits, candidates=4)}, LEVEL)


@pytest.mark.parametrize(
    ("before", "now", "trials"),
    [
        (np.zeros(12, bool), np.ones(12, bool), "trials"),  # the smallest p-value is 2 x 2^-12, five times the level
        (np.ones(TRIALS, bool), np.ones(TRIALS, bool), "trials"),
        (np.ones(TRIALS, bool), np.arange(TRIALS) < TRIALS - 1, "others"),
        (np.arange(1000) < 600, np.ones(16, bool), "others"),
    ],
)
def test_a_row_that_no_outcome_could_call_worse_is_not_testable(
    before: np.ndarray, now: np.ndarray, trials: str
) -> None:
    changes = judge({row(0): measured(before)}, {row(0): measured(now, trials, "fresh")}, LEVEL)
    assert [change.verdict for change in changes] == [NOT_TESTABLE]
    said = drift.message(changes, LEVEL, [])
    assert said.startswith("not testable: 1 (0 of the baseline's 1 rows tested")
    (blind,) = drift.blind_spots(changes)
    assert blind in said
    assert "more trials" in blind


def test_what_is_testable_is_what_all_right_guesses_would_decide() -> None:
    """From 15 misses on, 2 x 2^-15 lies within the level of one row; beside another of one miss more are needed."""
    assert 2.0**-14 <= LEVEL < 2.0**-13
    assert LEVEL / 2 < 2.0**-14
    for misses, verdict in ((14, NOT_TESTABLE), (15, UNCHANGED)):
        hits = np.arange(TRIALS) >= misses
        (change,) = judge({row(0): measured(hits)}, {row(0): measured(hits, rewrites="fresh")}, LEVEL)
        (best,) = judge({row(0): measured(hits)}, {row(0): measured(np.ones(TRIALS, bool))}, LEVEL)
        assert (change.verdict, best.verdict) == (verdict, WORSE if verdict == UNCHANGED else NOT_TESTABLE)
    of_two = {row(0): measured(np.arange(TRIALS) >= 15), row(1): measured(np.arange(TRIALS) >= 200)}
    assert [change.verdict for change in judge(of_two, of_two, LEVEL)] == [NOT_TESTABLE, UNCHANGED]
    other = {row(1): measured(np.ones(TRIALS, bool))}  # if this row is called worse, the first row gets the whole level
    assert [change.verdict for change in judge(of_two, of_two | other, LEVEL)] == [WORSE, UNCHANGED]


def test_a_row_that_was_always_right_may_become_better() -> None:
    ceiling = {row(0): measured(np.ones(TRIALS, bool))}
    (better,) = judge(ceiling, {row(0): measured(np.arange(TRIALS) >= 40)}, LEVEL)
    assert better.verdict == BETTER


def test_rows_of_too_few_trials_cost_the_others_nothing() -> None:
    """15 of 400 trials changed, all one way: within the level of one row, and not within that of two."""
    rng = np.random.default_rng(7)
    old = rng.random(TRIALS) < 0.7
    new = old.copy()
    new[np.flatnonzero(~old)[:15]] = True
    few = {row(i): measured(rng.random(10) < 0.5) for i in range(1, 40)}
    changes = judge({row(0): measured(old)} | few, {row(0): measured(new)} | few, LEVEL)
    assert [change.verdict for change in changes] == [WORSE] + 39 * [NOT_TESTABLE]
    assert changes[0].p_value == pytest.approx(2.0**-14)
    assert {change.p_value for change in changes[1:]} == {None}


def test_a_mechanism_under_another_name_passes_no_audit() -> None:
    """It leaks everything, and its row is compared with none."""
    low, high = np.random.default_rng(8).random(TRIALS) < 0.6, np.ones(TRIALS, bool)
    renamed = Row("songs", "other", 0.0, "lexical")
    changes = judge({row(0): measured(low)}, {renamed: measured(high)}, LEVEL)
    gone, untested = drift.blind_spots(changes)
    assert "epsilometer results accept" in gone
    assert "no row could be tested" in untested
    said = drift.message(changes, LEVEL, [])
    assert said.startswith("new: 1, gone: 1 (0 of the baseline's 1 rows tested")
    assert gone in said
    assert not drift.blind_spots(judge({row(0): measured(low)}, {row(0): measured(low)}, LEVEL))


def figure(outcomes: np.ndarray, trials: str) -> dict[Row, Measured]:
    bounds = (0.0, float(outcomes.mean()), 1.0)
    return {row(0): Measured.of_figure(outcomes, trials, bounds, "similarity", alpha=0.05)}


def test_shares_of_other_trials_are_compared_by_what_lies_above_their_common_median() -> None:
    """At level .05 more than 45 of 400 unchanged figures called changed have a probability below 1e-6."""
    rng, values = np.random.default_rng(1), np.array([0.0, 0.25, 0.5, 1.0])
    assert binom.sf(45, 400, 0.05) < 1e-6
    alarms = 0
    for _ in range(400):
        before, now = (rng.choice(values, 60, p=[0.3, 0.3, 0.3, 0.1]) for _ in range(2))
        (change,) = drift.judge(figure(before, "a"), figure(now, "b"), 0.05)
        assert change.test == drift.TWO_SAMPLES
        alarms += change.verdict in (WORSE, drift.BETTER)
    assert alarms <= 45
    low, high = rng.uniform(0, 0.4, 60), rng.uniform(0.3, 0.7, 60)
    (change,) = drift.judge(figure(low, "a"), figure(high, "b"), 0.001)
    assert change.verdict == WORSE
    above = [int((part > np.median([*low, *high])).sum()) for part in (low, high)]
    assert change.p_value == pytest.approx(fisher_exact([[above[0], 60 - above[0]], [above[1], 60 - above[1]]]).pvalue)


def test_figures_without_rewrites_are_never_called_the_same_rewrites() -> None:
    outcomes = np.linspace(0, 1, 50)
    (change,) = drift.judge(figure(outcomes, "a"), figure(outcomes, "a"), 0.05)
    assert (change.verdict, change.identical) == (drift.UNCHANGED, False)
