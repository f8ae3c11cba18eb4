"""If pairs are sampled, the interval covers the average over all pairs, and the row says that pairs were sampled."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

import epsilometer
from epsilometer.auditing.exact_loss.bracket import Bracket, guess_losses
from epsilometer.auditing.exact_loss.candidate_sets import over_all as over_sets
from epsilometer.auditing.exact_loss.from_texts import chosen
from epsilometer.auditing.exact_loss.importance import Sampling, draws, sampled_mean
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import all_of, count_pairs, of_audit, of_trials
from epsilometer.auditing.exact_loss.rows import ALPHA, average_loss, over_all
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.sampling import Trials, sample
from epsilometer.cells.calibrating.by_law import ComparedByLaw, LossTarget, among_drawn, row
from epsilometer.core.randomness import Noise
from tests.support.sparing import first
from tests.support.spelled import Likely, Spelled

LETTERS = "abcde"
LAW = log_softmax(2 * np.random.default_rng(1).normal(size=(5, 5)), axis=1)
TEXTS = [f"{a} {b}" for a in LETTERS for b in LETTERS] + list(LETTERS)
UNIFORM = Design(temperature=0)
FALSE_ALARM = 1e-9


def of_sets(k: int, texts: list[str], epsilon: float = 1.0) -> float:
    """The loss at the mean error over all sets of k texts, all outputs enumerated."""
    mechanism, errors = Spelled(LAW), []
    for group in combinations(texts, k):
        lengths = {len(text.split()) for text in group}
        right = 0.0
        for length in lengths:
            right += (
                np.exp(np.array([mechanism.outputs(text, epsilon) for text in group if len(text.split()) == length]))
                .max(axis=0)
                .sum()
            )
        errors.append(1 - right / k)
    e = float(np.mean(errors))
    return math.log((k - 1) * (1 - e) / e)


def missed(intervals: list[Bracket[float]], truth: float) -> int:
    return sum(not interval.low <= truth <= interval.high for interval in intervals)


def test_the_interval_over_pairs_covers_the_average_of_all() -> None:
    """400 samples of 60 to 240 trials at 99 %: more misses by chance once in 10^9. Brackets of the pairs drawn miss."""
    pairs = all_of(TEXTS)
    errors = np.array([math.exp(-3 * (1 + len(TEXTS[i]) * (j % 3))) / 2 for i, j in pairs.numbers])
    log_error = Bracket(np.log(errors), np.log(errors))
    truth = average_loss(log_error, pairs.weights)
    rng, intervals, brackets = np.random.default_rng(2), [], []
    for run in range(400):
        trials = rng.choice(len(pairs), size=60 * (1 + run % 4), p=pairs.weights)
        places, counts = np.unique(trials, return_counts=True)
        brackets.append(average_loss(Bracket(log_error.low[places], log_error.low[places]), counts / counts.sum()))
        intervals.append(over_all(log_error, trials, brackets[-1]))
    assert missed(intervals, truth.low) <= stats.binom.isf(FALSE_ALARM, 400, ALPHA)
    assert missed(brackets, truth.low) == 400
    assert np.median([interval.high - interval.low for interval in intervals]) < 2.5


@pytest.mark.slow
def test_the_interval_of_the_tail_covers_that_of_all_pairs() -> None:
    """15 audits at 99 %: more misses by chance once in 10^9. What the compared pairs have on average misses."""
    mechanism = Spelled(3 * LAW)
    truth = measure(mechanism, TEXTS, [1.0], all_of(TEXTS)).losses.row(0, named=True)["delta_at_4"]
    intervals, compared = [], []
    for seed in range(15):
        trials = sample(np.zeros((len(TEXTS), 1), np.float32), 100, temperature=0, seed=seed)
        row = measure(mechanism, TEXTS, [1.0], of_trials(trials, TEXTS)).losses.row(0, named=True)
        intervals.append(Bracket(row["all_delta_at_4_low"], row["all_delta_at_4"]))
        compared.append(Bracket(row["delta_at_4_low"], row["delta_at_4"]))
    assert missed(intervals, truth) <= stats.binom.isf(FALSE_ALARM, 15, ALPHA)
    assert missed(compared, truth) > 12
    assert np.median([interval.high - interval.low for interval in intervals]) < 0.6


@pytest.mark.slow
def test_trials_that_end_with_so_many_pairs_of_one_length_cover_it_too() -> None:
    """30 audits, of which the first trials count (`first_trials`), a number that depends on what they drew."""
    mechanism = Spelled(LAW)
    truth = measure(mechanism, TEXTS, [1.0], all_of(TEXTS)).losses.filter(pairs="equal length").row(0, named=True)
    intervals = []
    for seed in range(30):
        trials = sample(np.zeros((len(TEXTS), 1), np.float32), 300, temperature=0, seed=seed)
        pairs = of_audit(trials, TEXTS, 40, pairwise=True)
        row = measure(mechanism, TEXTS, [1.0], pairs).losses.filter(pairs="equal length").row(0, named=True)
        assert row["compared"] == 40
        assert row["method"] == f"exact, 40 of {count_pairs(TEXTS)[1]} pairs"
        intervals.append(Bracket(row["all_low"], row["all_high"]))
    assert missed(intervals, truth["average"]) <= stats.binom.isf(FALSE_ALARM, 30, ALPHA)


@pytest.mark.parametrize("kind", [Spelled, Likely])
@pytest.mark.parametrize("k", first(1, [3, 4]))
def test_the_interval_over_sets_covers_the_average_of_all(k: int, kind: type[Spelled]) -> None:
    """100 samples of 150 trials at 99 %: more misses by chance once in 10^9. Some texts have another length."""
    texts = TEXTS[::4]
    truth, mechanism, intervals = of_sets(k, texts), kind(LAW), []
    for seed in range(100):
        trials = sample(np.zeros((len(texts), 1), np.float32), 150, k, temperature=0, seed=seed)
        sets = of_trials(trials, texts).sets
        assert sets is not None
        epsilon = 1.0 + seed * 1e-12  # a slightly different epsilon gives another stream of draws
        intervals.append(over_sets(mechanism, texts, sets, epsilon, most=150))
    assert missed(intervals, truth) <= stats.binom.isf(FALSE_ALARM, 100, ALPHA)
    assert np.median([interval.high - interval.low for interval in intervals]) < 2.5


@pytest.mark.parametrize("seed", first(2, range(8)))
def test_no_more_is_said_of_all_sets_than_of_those_compared(seed: int) -> None:
    """Their draws are not the same: of some seeds the interval over all ended below the upper end of the average."""
    mechanism = Likely(LAW / 4)
    design = Design(3, temperature=0, seed=seed)
    table = epsilometer.exact_loss(TEXTS[::4], mechanism, [1.0], trials=40, design=design)
    assert table["pairs"].to_list() == ["all", "equal length"]
    for losses in table.rows(named=True):
        assert losses["all_low"] <= losses["average_low"] <= losses["average_high"] <= losses["all_high"]


def test_draws_between_drawn_pairs_cover_the_average_of_all() -> None:
    """100 samples of 150 trials, a draw each, at 99 %: more misses by chance once in 10^9."""
    truth = measure(Spelled(LAW), TEXTS, [1.0], all_of(TEXTS)).losses.row(0, named=True)["average"]
    mechanism, intervals = Likely(LAW), []
    for seed in range(100):
        pairs = of_trials(sample(np.zeros((len(TEXTS), 1), np.float32), 150, temperature=0, seed=seed), TEXTS)
        draw = draws(mechanism, TEXTS, pairs.numbers, 1.0)
        assert draw is not None
        mean = sampled_mean(draw, pairs.weights, lambda n, s=seed: Noise.named(n, s), Sampling(), trials=pairs.trials)  # type: ignore[misc]
        ends = guess_losses(mean.log_error)
        intervals.append(Bracket(float(ends.low), float(ends.high)))
    assert missed(intervals, truth) <= stats.binom.isf(FALSE_ALARM, 100, ALPHA)
    row = measure(mechanism, TEXTS, [1.0], pairs).losses.row(0, named=True)
    assert (row["all_low"], row["all_high"]) == (row["average_low"], row["average_high"])


def test_the_row_and_a_note_say_how_many_pairs_were_compared(capsys: pytest.CaptureFixture[str]) -> None:
    whole, equal = epsilometer.exact_loss(TEXTS, Spelled(LAW), [1.0], trials=200, design=UNIFORM).rows(named=True)
    assert whole["method"] == f"exact, {whole['compared']} of 435 pairs"
    assert equal["method"] == f"exact, {equal['compared']} of 310 pairs"
    assert whole["all_low"] < whole["average_low"] < whole["average_high"] < whole["all_high"]
    said = capsys.readouterr().err
    assert f"all at epsilon 1: {whole['method']}" in said
    assert f"{equal['all_low']:.4g} to {equal['all_high']:.4g} nats" in said
    every = epsilometer.exact_loss(TEXTS, Spelled(LAW), [1.0], trials=435, design=UNIFORM)
    assert set(every["method"]) == {"exact"}
    assert (every["all_low"] == every["average_low"]).all()
    assert (every["all_high"] == every["average_high"]).all()
    assert " of " not in capsys.readouterr().err
    sets = epsilometer.exact_loss(TEXTS[::4], Spelled(LAW), [1.0], trials=100, design=Design(3, temperature=0))
    assert sets["method"][0].startswith("importance, ")
    assert sets["method"][0].endswith(f" of {math.comb(len(TEXTS[::4]), 3)} sets")


def test_where_all_pairs_lose_alike_drawing_them_leaves_nothing_open() -> None:
    """Two texts, and every trial has both: the interval is the bracket."""
    pairs = of_trials(Trials(np.array([[0, 1], [1, 0]], np.int32), np.zeros(2, np.int16)), ["a b", "b a"])
    row = measure(Spelled(LAW), ["a b", "b a"], [1.0], pairs).losses.row(0, named=True)
    assert row["method"] == "exact"
    assert (row["all_low"], row["all_high"]) == (row["average_low"], row["average_high"])


@pytest.mark.parametrize("measure_of", ["average", "worst"])
def test_calibration_says_what_pairs_that_were_not_compared_leave_open(measure_of: str) -> None:
    some = chosen(TEXTS, 100, UNIFORM)
    aim, every = LossTarget(measure_of, 1.0), chosen(TEXTS, 435, UNIFORM)
    compared = ComparedByLaw(Spelled(LAW), TEXTS, some.of_equal_length(), (0.05, 5.0))
    of = {"dataset": "texts", "mechanism": "spelled", "target": 1.0, "sees": "released"}
    said = row(of, aim, lambda: compared, "spelled", width=1.05)["reason"]
    assert f"compared: {len(compared.pairs)} of 310 pairs" in said
    assert ("nats (99 %)" if measure_of == "average" else "another may lose more") in said
    assert among_drawn(ComparedByLaw(Spelled(LAW), TEXTS, every, (0.05, 5.0)), aim, 1.0) is None
