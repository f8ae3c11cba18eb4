"""Bounds from scores of canaries: known ceilings, ties, and true and false claims."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import epsilometer
from epsilometer.studies.training.one_run.fdp import gaussian
from epsilometer.studies.training.one_run.scores import BOUNDS, Judging, gaussian_epsilon, judged, ordered
from tests.support.refusals import refused


def canaries(count: int, mu: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of a Gaussian mechanism: of those that took part, and of the others."""
    rng = np.random.default_rng(seed)
    coins = rng.random(count) < 0.5
    scores = rng.standard_normal(count) + mu * coins
    return scores[coins], scores[~coins]


def pairs(mu: float) -> list[tuple[float, float]]:
    return list(zip(gaussian(mu).epsilons, gaussian(mu).deltas, strict=True))


@pytest.mark.parametrize(("alpha", "ceiling"), [(0.1, 5.81), (0.01, 5.24)])
def test_the_ceiling_of_a_thousand_canaries(alpha: float, ceiling: float) -> None:
    rows = epsilometer.one_run(np.ones(500), np.zeros(500), 0.0, guesses=1000, alpha=alpha)
    assert rows["method"].to_list() == ["steinke", "f-dp"]  # a Gaussian has no finite epsilon at delta 0
    assert rows["ceiling"].to_list() == rows["lower"].to_list()
    assert rows["ceiling"].to_numpy() == pytest.approx(ceiling, abs=5e-3 + 1e-3 * ceiling)


def test_a_claim_stands_where_it_is_true_and_falls_where_it_is_not() -> None:
    """A false alarm has probability at most .01."""
    included, excluded = canaries(2000, 1.0)
    said = epsilometer.one_run(included, excluded, 1e-4, guesses=400, claim=pairs(1.0))
    assert dict(said.schema) == BOUNDS
    assert set(said["verdict"]) == {"not refuted"}
    assert said["lower"].max() < gaussian_epsilon(1.0, 1e-4)
    steinke, fdp, by_gaussian = said["lower"].to_list()
    assert 1 < steinke < fdp < by_gaussian
    assert set(epsilometer.one_run(included, excluded, 1e-4, guesses=400, claim=pairs(0.4))["verdict"]) == {"violated"}
    assert set(epsilometer.one_run(included, excluded, 1e-4, guesses=400, claim=[(90.0, 0.1)])["verdict"]) == {
        "not testable"
    }


def test_true_claims_are_refuted_as_often_as_said() -> None:
    """At alpha .2 with all numbers of guesses, 40 runs: more than 16 refuted have a probability below 1e-3."""
    judging = Judging(1e-3, 0.2)
    refuted = 0
    for seed in range(40):
        (row, *_) = judged(ordered(*canaries(100, 1.0, seed)), judging, claim=gaussian(1.0))
        refuted += row["verdict"] == "violated"
    assert refuted <= binom.isf(1e-3, 40, 0.2)


def test_ties_give_nobody_away() -> None:
    """In the order of the arrays, all of 1,000 equal scores would be guessed right. False alarm below 1e-9."""
    right = ordered(np.zeros(500), np.zeros(500))
    assert 400 < right.sum() < 600
    assert (ordered(np.zeros(500), np.zeros(500)) == right).all()


def test_the_surest_come_first() -> None:
    assert ordered([9.0, 8.0, 1.0], [7.0, 2.0, 0.0]).tolist() == [True, True, True, False, False, True]
    assert ordered([np.inf, 1.0], [0.0]).tolist() == [True, True, True]


def test_a_delta_above_the_level_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = epsilometer.one_run(*canaries(64, 3.0), 0.01)
    assert rows["lower"][0] == rows["lower"][1] == 0
    assert "delta 0.01 is not below" in capsys.readouterr().err


def test_scores_the_wrong_way_round_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    epsilometer.one_run(*reversed(canaries(200, 4.0)), 1e-5)
    assert "minus the loss" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("included", "excluded", "settings", "refusal"),
    [
        ([1.0, np.nan], [0.0, 0.0], {}, ("EPS-A140", "included")),
        ([[1.0]], [0.0], {}, ("EPS-A140", "included")),
        (np.ones(100), np.zeros(2), {}, ("EPS-A139", "100", "2")),
        ([], [], {}, ("EPS-A138",)),
        (np.ones(40), np.ones(40), {}, ("EPS-A136",)),
        ([1.0, 2.0], [0.0, 0.0], {"delta": 1.0}, ("EPS-A134", "delta")),
        ([1.0, 2.0], [0.0, 0.0], {"alpha": 0.0}, ("EPS-A135", "alpha")),
        ([1.0, 2.0], [0.0, 0.0], {"guesses": 5}, ("EPS-A137", "guesses", "1", "4", "5")),
        ([1.0, 2.0], [0.0, 0.0], {"claim": [(1.0, 2.0)]}, ("EPS-A133",)),
    ],
)
def test_bad_input(included: object, excluded: object, settings: dict[str, object], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        epsilometer.one_run(included, excluded, **{"delta": 0.0, **settings})
