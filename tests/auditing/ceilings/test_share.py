"""The share of the possible is 0 for one text given to everybody, and at most 1; bounds on losses give bounds on it."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.ceilings.frontier import TextSet, success_of
from epsilometer.auditing.ceilings.set_trials import draw_trials
from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LATENTS, BY_LAW, Lost, Sets, best_text, lost, row
from epsilometer.auditing.exact_loss.importance import IMPORTANCE
from epsilometer.auditing.schemas import ESTIMATES
from tests.support.exact_losses import losses

SETS = 400


def unit(count: int, seed: int, dimensions: int = 30) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)) + 0.5
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def sets() -> Sets:
    served = [TextSet.of_all_pairs(unit(6, seed)) for seed in range(SETS)]
    return Sets(served, best_text(unit(50, 99), served))


def vectors(sets: Sets) -> tuple[np.ndarray, np.ndarray]:
    """The embeddings of all texts, and the source of each trial."""
    numbers = [np.arange(6 * i, 6 * i + 6) for i in range(SETS)]
    return np.concatenate([texts.vectors for texts in sets.served]), draw_trials(numbers).source


def coin(sets: Sets, nats: float) -> np.ndarray:
    """The worth of the coin in each trial: the text with probability tanh(l / 2), else the best public text."""
    every, source = vectors(sets)
    public = unit(50, 99)
    best = public[(public @ every.mean(axis=0)).argmax()]
    shown = np.random.default_rng(1).random(len(source)) < math.tanh(nats / 2)
    return np.where(shown, 1.0, every[source] @ best)


def test_one_text_for_everybody_keeps_nothing_and_the_texts_all(sets: Sets) -> None:
    """Worth of 400 trials about its mean: .1 of the share is more than five standard errors."""
    nothing = row(sets, coin(sets, 0.0), Lost(0.0, BY_LAW), None, 0.01)
    assert nothing["share"] == pytest.approx(0, abs=0.1)
    assert nothing["proved"] == 0
    everything = row(sets, np.ones(SETS), Lost(math.inf, BY_LAW), None, 0.01)
    assert everything["share"] == pytest.approx(1, abs=1e-3)
    assert everything["proved"] > 0


@pytest.mark.parametrize("nats", [0.5, 1.0, 2.0, 4.0])
def test_the_coin_stays_below_the_ceiling_at_its_loss(sets: Sets, nats: float) -> None:
    columns = row(sets, coin(sets, nats), Lost(nats, BY_LAW), None, 0.01)
    assert 0.2 < columns["share"] < 1
    assert columns["worth"] < columns["ceiling"]
    assert columns["proved"] <= nats
    assert columns["share_is"] == "="


def test_by_attacks_the_share_is_at_most_and_by_latents_at_least(sets: Sets) -> None:
    """The coin's loss is two nats; attacks prove one, latents bound it by three."""
    worths = coin(sets, 2.0)
    law, attacks, latents = (
        row(sets, worths, Lost(nats, by), None, 0.01)
        for nats, by in ((2.0, BY_LAW), (1.0, BY_ATTACKS), (3.0, BY_LATENTS))
    )
    assert latents["share"] < law["share"] < attacks["share"]
    assert (attacks["share_is"], latents["share_is"]) == ("≤", "≥")
    turned = row(sets, (worths - 1) / 2, Lost(1.0, BY_ATTACKS), None, 0.01)
    assert turned["share"] < 0
    assert turned["share_is"] == "≥", "below one text for everybody, a larger ceiling is a larger share"


def test_of_a_loss_that_is_estimated_by_draws_the_share_is_at_least_that_at_its_upper_end(sets: Sets) -> None:
    exact = losses({("queries", "dp_mlm", 1.0): 0.95}, latents=["dp_mlm"]).with_columns(
        released=pl.lit(True), method=pl.lit(IMPORTANCE), average_low=pl.lit(0.5), average_high=pl.lit(1.4)
    )
    loss = lost(exact, pl.DataFrame(schema=dict(ESTIMATES)))
    assert loss is not None
    worths = coin(sets, 0.95)
    estimated = row(sets, worths, loss, None, 0.01)
    assert estimated["loss"] == 1.4
    assert estimated["share_is"] == "≥"
    assert estimated["share"] == pytest.approx(row(sets, worths, Lost(1.4, BY_LATENTS), None, 0.01)["share"])


def test_the_ceiling_under_a_pure_epsilon_is_below_that_at_its_largest_average_loss(sets: Sets) -> None:
    """Pure epsilon between two texts allows a guess loss of at most epsilon."""
    columns = row(sets, coin(sets, 1.0), Lost(1.0, BY_LAW), 1.0, 0.01)
    assert columns["pure_ceiling"] <= columns["ceiling"] + 1e-6
    assert row(sets, coin(sets, 1.0), Lost(1.0, BY_LAW), None, 0.01)["pure_ceiling"] is None


def test_the_curve_is_the_ceiling_and_without_public_texts_there_is_no_share(sets: Sets) -> None:
    curve = list(sets.curve())
    assert curve[0]["nats"] == 0
    assert [point["ceiling"] for point in curve] == sorted(point["ceiling"] for point in curve)
    assert curve[-1]["ceiling"] == pytest.approx(float(sets.whole.ceiling(success_of(8.0))), abs=0.01)
    assert best_text(np.empty((0, 30)), sets.served) is None
    alone = row(Sets(sets.served, None), np.ones(SETS), Lost(1.0, BY_LAW), None, 0.01)
    assert (alone["share"], alone["one_text"]) == (None, None)


def test_the_best_public_text_is_found_by_trying_each(sets: Sets) -> None:
    every, _ = vectors(sets)
    assert sets.one_text == pytest.approx(max(float((every @ text).mean()) for text in unit(50, 99)))
