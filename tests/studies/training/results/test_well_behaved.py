"""Tests of whether a curve falls or rises: how often they are wrong, and what they detect."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.claims.verdicts import NOT_TESTABLE
from epsilometer.studies.training.results.paired_areas import areas
from epsilometer.studies.training.results.rates import MembershipScores, area, area_of
from epsilometer.studies.training.results.well_behaved import (
    FALLS,
    NO_MESSAGE,
    NOT_MONOTONE,
    Moves,
    by_covariance,
    by_intervals,
    paired,
    verdicts,
)
from tests.support.refusals import refused
from tests.support.sparing import first

TEXTS, LEVELS = 24, 4


def curves(means: list[float], seed: int, spread: float = 0.2) -> np.ndarray:
    """Texts differ from each other more than their values do from level to level."""
    generator = np.random.default_rng(seed)
    own = generator.uniform(0.2, 0.8, TEXTS)
    return np.array(means)[:, None] + own + spread * generator.normal(size=(len(means), TEXTS))


@pytest.mark.parametrize("which", first(1, ["fall", "rise"]))
def test_flat_curves_are_seldom_said_to_move(which: str) -> None:
    """200 flat curves at level .1: more rejections come by chance once in 10^6."""
    p = [getattr(paired(curves([0.0] * LEVELS, seed)), which) for seed in range(200)]
    assert sum(p_value <= 0.1 for p_value in p) <= stats.binom.isf(1e-6, 200, 0.1)


def test_a_falling_curve_falls_and_one_with_a_hump_is_not_monotone() -> None:
    falling, hump = paired(curves([0.6, 0.4, 0.2, 0.0], 0)), paired(curves([0.3, 0.6, 0.3, 0.0], 0))
    flat = paired(curves([0.0] * LEVELS, 0))
    assert verdicts([falling, hump, flat], 0.01) == [FALLS, NOT_MONOTONE, NO_MESSAGE]


def test_intervals_of_the_stated_level_say_the_same() -> None:
    """Figures with deviation .02: 2,000 flat curves at level .05, more rejections come once in 10^6."""
    generator = np.random.default_rng(0)
    half = stats.norm.isf(0.005) * 0.02
    rejected = 0
    for _ in range(2000):
        values = 0.5 + 0.02 * generator.normal(size=3)
        rejected += by_intervals(values.tolist(), (values - half).tolist(), (values + half).tolist(), 0.01).fall <= 0.05
    assert stats.binom.ppf(1e-6, 2000, 0.05) <= rejected <= stats.binom.isf(1e-6, 2000, 0.05)
    values = [0.7, 0.6, 0.5]
    ends = [v - half for v in values], [v + half for v in values]
    assert by_intervals(values, *ends, 0.01).fall < 1e-6
    assert by_intervals(values[::-1], ends[0][::-1], ends[1][::-1], 0.01).rise < 1e-6


def test_many_curves_are_corrected_together() -> None:
    curve = Moves(0.004, 1.0)
    assert verdicts([curve], 0.01) == [FALLS]
    assert verdicts([curve] * 5, 0.01) == [NO_MESSAGE] * 5


def test_flips_of_few_texts_are_enumerated() -> None:
    """Of 2^4 flips of four texts that all fall, one gives a sum as large; of 24 texts 19,999 are drawn."""
    four, many = curves([0.9, 0.0], 0, spread=0.0)[:, :4], curves([0.9, 0.0], 0, spread=0.0)
    assert paired(four) == Moves(1 / 16, 1.0, 1 / 16, 1 / 16)
    assert paired(many) == Moves(1 / 20_000, 1.0, 1 / 20_000, 1 / 20_000)
    three_levels = paired(curves([0.0, 0.4, 0.9], 0, spread=0.0)[:, :4])
    assert (three_levels.rise, three_levels.least_rise) == (3 / 16, 3 / 16)


def test_an_undefined_value_is_no_sign_of_a_move() -> None:
    for texts in (8, 24):
        values = curves([0.9, 0.0], 0, spread=0.0)[:, :texts]
        values[0, 3] = np.nan
        assert (paired(values).fall, paired(values).rise) == (1, 1)
        assert verdicts([paired(values)], 0.05) == [NO_MESSAGE]


def test_a_curve_that_no_data_could_make_fall_is_not_testable_and_costs_the_others_nothing() -> None:
    """Four batches have no p-value below 1/16; five such curves leave the level of a sixth as it is."""
    sure, few = Moves(0.009, 1.0), paired(curves([0.9, 0.0], 0, spread=0.0)[:, :4])
    assert verdicts([sure], 0.02) == [FALLS]
    assert verdicts([sure] + [few] * 5, 0.02) == [FALLS] + [NOT_TESTABLE] * 5
    assert verdicts([few], 0.2) == [FALLS]
    assert verdicts([few] * 5, 0.2) == [NOT_TESTABLE] * 5
    assert verdicts([], 0.01) == []


FAMILY = (4, 8, 8, 10, 10, 12, 12, 12)  # batches of each curve


def family(fall: float, seed: int) -> list[str]:
    """Verdicts on eight curves of three levels, of means in [0, 1] whose spread from batch to batch is .1; alpha .05.

    fall: of all, from the least noise to the most.
    """
    rng = np.random.default_rng(seed)
    means = 0.5 - fall * np.array([0.0, 0.5, 1.0])
    return verdicts([paired(means[:, None] + 0.1 * rng.normal(size=(3, batches))) for batches in FAMILY], 0.05)


@pytest.mark.slow
def test_a_family_of_flat_curves_is_seldom_said_to_move() -> None:
    """400 families of eight curves at .05: more of them with any move come by chance once in 10^6."""
    moved = sum(bool({FALLS, NOT_MONOTONE} & {*family(0.0, seed)}) for seed in range(400))
    assert moved <= stats.binom.isf(1e-6, 400, 0.05)


def test_a_planted_fall_is_seen_wherever_it_could_be() -> None:
    """A fall of .2, twice a batch's own spread: in 40 families nearly all curves of eight batches and more fall, and
    those of four are never said to have no message.
    """
    said = np.array([family(0.2, seed) for seed in range(40)])
    of = np.array(FAMILY)
    assert (said[:, of == 4] == NOT_TESTABLE).all()
    assert np.mean(said[:, of >= 10] == FALLS) > 0.7
    assert not (said == NOT_MONOTONE).any()


def test_figures_without_a_spread_are_taken_as_they_are() -> None:
    assert by_intervals([1.0, 0.0], [1.0, 0.0], [1.0, 0.0], 0.01) == Moves(0.0, 1.0)
    assert by_intervals([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0.01) == Moves(1.0, 1.0)


MEMBERS = np.arange(160) < 80


def scored(
    shifts: list[float], rng: np.random.Generator, seeds: int = 2, own: float = 0.4
) -> list[NDArray[np.float64]]:
    """Scores [seeds, examples] of levels: what an example is like counts for more than what a model makes of it."""
    alike = rng.normal(size=len(MEMBERS))
    return [alike + own * rng.normal(size=(seeds, len(MEMBERS))) + np.where(MEMBERS, shift, 0.0) for shift in shifts]


def test_equal_areas_on_the_same_examples_seldom_differ() -> None:
    """400 flat curves of four levels at .05, which a normal law at 80 members may make .065: a fall is not said more
    often, nor a rise between any of six pairs, nor a fall less often than at .02. Each fails by chance once in 10^6.
    """
    rng = np.random.default_rng(1)
    moves = [by_covariance(areas(scored([0.5] * LEVELS, rng), MEMBERS)) for _ in range(400)]
    falls, rises = (sum(getattr(move, which) <= 0.05 for move in moves) for which in ("fall", "rise"))
    assert stats.binom.ppf(1e-6, 400, 0.02) <= falls <= stats.binom.isf(1e-6, 400, 0.065)
    assert rises <= stats.binom.isf(1e-6, 400, 0.065)


def test_a_fall_is_seen_that_independent_levels_would_hide() -> None:
    """From an area of about .65 to .57: of 60 such curves nearly all surely fall by their common examples, hardly any
    by intervals of each level.
    """
    rng, alpha, by_pairs, alone = np.random.default_rng(2), 0.01, 0, 0
    for _ in range(60):
        levels = scored([0.6, 0.45, 0.35, 0.25], rng, seeds=1)
        by_pairs += by_covariance(areas(levels, MEMBERS)).fall <= alpha
        intervals = [area(MembershipScores.of(scores[0], MEMBERS), alpha) for scores in levels]
        ends = [interval.low for interval in intervals], [interval.high for interval in intervals]
        alone += by_intervals([interval.value for interval in intervals], *ends, alpha).fall <= alpha
    assert by_pairs >= 50
    assert alone <= 10


def test_a_rise_in_between_is_seen_whatever_the_ends() -> None:
    rng = np.random.default_rng(3)
    moves = [by_covariance(areas(scored([0.6, 1.2, 0.6, 0.3], rng), MEMBERS)) for _ in range(20)]
    assert verdicts(moves, 0.01) == [NOT_MONOTONE] * 20


@pytest.mark.slow
def test_the_covariance_is_that_of_areas_on_further_examples() -> None:
    """1,000 draws of 80 members and 80 others: their areas vary together as each draw's own covariance says, to a
    fifth, where the estimate from so many draws has an error of .045 (so that .2 is more than four of these).
    """
    rng = np.random.default_rng(4)
    repeats = [areas(scored([0.6, 0.3], rng), MEMBERS) for _ in range(1000)]
    covariance, said = (
        np.cov(np.array([repeat.values for repeat in repeats]).T),
        np.mean([repeat.covariance for repeat in repeats], axis=0),
    )
    assert np.abs(said / covariance - 1).max() < 0.2
    assert covariance[0, 1] > 0.5 * covariance[0, 0]


def test_areas_of_one_model_are_those_of_its_curve() -> None:
    (scores,) = scored([0.6], np.random.default_rng(5), seeds=1)
    together, alone = areas([scores], MEMBERS), area(MembershipScores.of(scores[0], MEMBERS), 0.01)
    assert area_of(float(together.values[0]), float(together.covariance[0, 0]), together.pairs, 0.01) == alone


def test_levels_that_are_alike_or_certain() -> None:
    """Always right against always the same: 10 disjoint pairs prove a difference of .5 at e^-1.25 only, 200 surely."""
    for pairs in (10, 200):
        members = np.arange(2 * pairs) < pairs
        certain, silent = np.where(members, np.inf, 0.0)[None], np.zeros((1, 2 * pairs))
        moves = by_covariance(areas([certain, silent], members))
        assert moves == Moves(pytest.approx(np.exp(-pairs / 8)), 1.0)
        assert by_covariance(areas([certain, certain], members)) == Moves(1.0, 1.0)


def test_examples_that_are_not_looked_at_are_left_out_of_all_levels() -> None:
    rng = np.random.default_rng(6)
    levels = scored([0.6, 0.3], rng)
    hidden = [levels[0].copy(), levels[1]]
    hidden[0][0, :10] = np.nan
    assert areas(hidden, MEMBERS).values[1] == pytest.approx(areas([s[:, 10:] for s in levels], MEMBERS[10:]).values[1])
    with refused("EPS-A065", "2"):
        areas(levels, np.arange(160) < 1)
