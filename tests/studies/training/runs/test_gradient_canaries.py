"""Gradient canaries: their scores agree with explicit arithmetic on gradients, for each noise and sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.studies.training.one_run.scores import FDP, STEINKE, Judging, judged, ordered
from epsilometer.studies.training.runs.gradient_canaries import LENGTH, Axes, Canaries, run
from epsilometer.studies.training.runs.gradients import DenseGradients
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise
from tests.support.refusals import refused


def test_axes_are_gradients_written_out() -> None:
    rng = np.random.default_rng(2)
    axes, lengths = np.array([0, 3, 3, 5]), np.array([LENGTH, -2.0, 1.0, 0.5])
    matrix = np.zeros((4, 7))
    matrix[np.arange(4), axes] = lengths
    short, dense, weights, vector = Axes(axes, lengths, 7), DenseGradients(matrix), rng.random(4), rng.random(7)
    assert (short.count, short.size, short.parts) == (dense.count, dense.size, dense.parts)
    assert short.norms() == pytest.approx(dense.norms())
    assert short.weighted_sum(weights) == pytest.approx(dense.weighted_sum(weights), rel=1e-6)
    assert short.gram() == pytest.approx(dense.gram())
    assert short.product(vector) == pytest.approx(dense.product(vector))


@pytest.mark.parametrize(
    ("sigma", "score", "steinke", "error"),
    [
        (1.91, "likelihood", 0.33, 0.1),
        (0.615, "likelihood", 2.39, 0.2),
        (0.615, "sum", 1.33, 0.15),
        (0.278, "likelihood", 3.503, 1e-3),
    ],
)
def test_what_orthogonal_canaries_show(sigma: float, score: str, steinke: float, error: float) -> None:
    """BERT on CoLA, 5,000 canaries, a fifth guessed, delta 1/N, 95 %: the likelihood ratio shows twice what sums do.

    The epsilons are at most .87, 8.4 and 88. Errors are some three deviations of a run.
    """
    audited = run(Canaries(5000, 5001), GaussianNoise(sigma), Poisson(5056, 128, 10), seed=1)
    right = ordered(audited.scores[score][audited.coins], audited.scores[score][~audited.coins])
    shown = {row["method"]: row["lower"] for row in judged(right, Judging(1 / 5056, 0.1, 1000))}
    assert shown[STEINKE] == pytest.approx(steinke, abs=error)
    assert shown[FDP] > shown[STEINKE]


def test_scores_of_one_full_batch_are_all_of_one_order() -> None:
    audited = run(Canaries(50, 60), GaussianNoise(2.0), Poisson(60, 60, 1))
    assert audited.scores["likelihood"] == pytest.approx((2 * audited.scores["sum"] - 1) / 8)
    assert (audited.scores["spread"] == 0).all()


def test_a_canary_adds_one_where_it_takes_part() -> None:
    for noise in (GaussianNoise(1e-6, 0.5), ScaledNoise(1e-6), NoNoise(0.25)):
        audited = run(Canaries(40, 50), noise, Shuffled(60, 7, 3))
        for score in ("sum", "placed"):
            assert audited.scores[score] == pytest.approx(3.0 * audited.coins, abs=1e-4)
    audited = run(Canaries(40, 2000, replaced=True), DirectionalNoise(1e9), Shuffled(60, 7, 3))
    assert audited.scores["sum"] == pytest.approx(np.where(audited.coins, 3.0, -3.0), abs=1e-2)


def test_with_fixed_batches_the_ratio_is_that_of_a_mixture() -> None:
    """By hand for one canary: its batch is any of three, with chances alike."""
    sigma, seen = 0.8, []

    class Watched(GaussianNoise):
        def update(self, *arguments):  # type: ignore[no-untyped-def]
            seen.append(super().update(*arguments).astype(float) * 4)
            return seen[-1] / 4

    audited = run(Canaries(2, 3), Watched(sigma), Shuffled(12, 4, 2))
    x = np.array(seen)[:, 0].reshape(2, 3)
    by_hand = math.log(np.exp(((2 * x - 1) / (2 * sigma**2)).sum(axis=0)).mean())
    assert audited.scores["likelihood"][0] == pytest.approx(by_hand, rel=1e-6)


def test_runs_repeat_and_differ_by_seed() -> None:
    first, again, other = (run(Canaries(20, 30), GaussianNoise(1.0), Poisson(40, 10, 2), seed) for seed in (1, 1, 2))
    assert (first.scores["sum"] == again.scores["sum"]).all()
    assert (first.coins == again.coins).all()
    assert (first.scores["sum"] != other.scores["sum"]).all()


def test_bad_input() -> None:
    with refused("EPS-T009", "9"):
        Canaries(9, 9)
    with refused("EPS-T010", "5", "9"):
        run(Canaries(9, 10), GaussianNoise(1.0), Poisson(5, 5, 1))
