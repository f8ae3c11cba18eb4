"""Losses by importance sampling agree with enumeration, and their intervals have the stated coverage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.exact_loss import by_laws
from epsilometer.auditing.exact_loss.bracket import guess_loss, guess_losses
from epsilometer.auditing.exact_loss.importance import (
    AT_LEAST,
    IMPORTANCE,
    Sampling,
    draws,
    mixed,
    sampled,
    sampled_mean,
)
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import Pairs
from epsilometer.core.between import Between, tilted
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from tests.support.refusals import refused

SURE = 1e-9  # alpha of intervals, the probability of a false alarm
OUTPUTS = 4
LOGITS = np.random.default_rng(0).normal(size=(5, OUTPUTS))
TEXTS = [[0, 1, 2], [2, 3, 4], [0, 1, 3], [1, 1]]


def laws(logits: NDArray[np.float64] = LOGITS) -> Laws:
    """Five laws of four outputs, sharper at larger epsilons; texts of three and of two units."""

    def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
        for epsilon in epsilons:
            scaled = epsilon * logits[rows]
            yield scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)

    return Laws(Ragged.of(TEXTS), OUTPUTS, log_probabilities)


def listed(text: int, epsilon: float, table: Laws) -> NDArray[np.float64]:
    """ln P of every output of a text of three units: [outputs^3]."""
    (log_p,) = table.log_probabilities(table.rows.row(text), [epsilon])
    every = np.array(list(itertools.product(range(OUTPUTS), repeat=len(log_p))))
    return log_p[np.arange(len(log_p)), every].sum(axis=1)


def truth(pair: Sequence[int], epsilon: float, level: float = 0.0) -> float:
    """1 - delta(level), the mean of both directions, by enumeration."""
    first, second = (listed(text, epsilon, laws()) for text in pair)
    ways = [np.exp(np.minimum(a, b + level)).sum() for a, b in ((first, second), (second, first))]
    return float(sum(ways) / 2)


def stream(numbers: NDArray[np.int64]) -> Noise:
    return Noise.named(numbers, "importance")


def of(pairs: Sequence[Sequence[int]], epsilon: float, table: Laws | None = None):
    return lambda numbers, noise: tilted(table or laws(), np.array(pairs)[numbers], epsilon, noise)[1]


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 9.0])
def test_products_against_enumeration(epsilon: float) -> None:
    """Three pairs, four figures each: false alarm at most 1.2e-8.

    The losses at 9 are beyond what as many draws of a mixture could show.
    """
    pairs = [(0, 1), (0, 2), (1, 2)]
    results = sampled(of(pairs, epsilon), 3, stream, Sampling(width=0.3, draws=6400, alpha=SURE))
    for pair, result in zip(pairs, results, strict=True):
        assert result.method == IMPORTANCE
        error = truth(pair, epsilon) / 2
        assert result.log_error.low <= math.log(error) <= result.log_error.high
        losses = guess_losses(result.log_error)
        assert losses.high - losses.low <= 0.3
        levels = np.array([0.0, 0.2 * epsilon, epsilon])
        delta = result.deltas(levels)
        truths = np.array([1 - truth(pair, epsilon, level) for level in levels])
        assert ((delta.low <= truths) & (truths <= delta.high)).all()
    if epsilon == 9.0:
        assert max(guess_losses(result.log_error).low for result in results) > math.log(6400)


def test_long_products_against_their_convolution() -> None:
    """150 units, some 25 nats, which no enumeration reaches; the bracket of the convolution lies in the interval."""
    rng, units = np.random.default_rng(5), 150
    table = replace(laws(), rows=Ragged.of(rng.integers(0, 5, (2, units)).tolist()))
    (log_p,) = table.log_probabilities(np.arange(5), [2.0])
    exact = by_laws.product(log_p, table.rows.values.reshape(2, units).T, 0.01).log_error()
    (result,) = sampled(of([(0, 1)], 2.0, table), 1, stream, Sampling(width=0.5, draws=6400, alpha=SURE))
    assert result.method == IMPORTANCE
    assert result.log_error.low <= exact.low <= exact.high <= result.log_error.high
    assert exact.high < -20


def test_the_mean_over_pairs() -> None:
    """One of the pairs has different lengths, and so no error; at epsilon 9 the mean is that of a few pairs."""
    pairs, weights = [(0, 1), (0, 2), (1, 2), (0, 3)], np.array([0.3, 0.1, 0.2, 0.4])
    for epsilon in (2.0, 9.0):
        result = sampled_mean(of(pairs, epsilon), weights, stream, Sampling(width=0.2, draws=12_800, alpha=SURE))
        error = weights[:3] @ [truth(pair, epsilon) / 2 for pair in pairs[:3]]
        assert result.method == IMPORTANCE
        assert result.log_error.low <= math.log(error) <= result.log_error.high
        delta = result.deltas(np.ones(1))
        assert delta.low[0] <= 1 - weights[:3] @ [truth(pair, epsilon, 1.0) for pair in pairs[:3]] <= delta.high[0]
    apart = sampled_mean(of([(0, 3), (3, 1)], 2.0), np.full(2, 0.5), stream, Sampling())
    assert apart.log_error.high == -math.inf


def test_a_pairs_figures_do_not_depend_on_the_others() -> None:
    pairs = [(0, 1), (1, 2)]
    together = sampled(of(pairs, 3.0), 2, stream, Sampling(draws=800))
    alone = sampled(of(pairs[:1], 3.0), 1, stream, Sampling(draws=800))
    assert together[0].log_error == alone[0].log_error


def test_what_no_output_can_be_mistaken_for() -> None:
    """Different lengths; and laws without a common output. Equal texts cannot be told apart."""
    logits = np.where(np.eye(5, OUTPUTS, dtype=bool), 0.0, -np.inf)
    logits[4, 0] = 0.0
    results = sampled(of([(0, 3), (0, 1), (0, 0)], 1.0, laws(logits)), 3, stream, Sampling())
    assert [float(guess_loss(result.log_error.high)) for result in results] == [math.inf, math.inf, 0.0]
    deltas = [result.deltas(np.full(1, 3.0)) for result in results]
    assert [delta.low[0] for delta in deltas] == [1.0, 1.0, 0.0]


class Hidden:
    """Draws from `laws`, known by their likelihood alone."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        numbers = np.array([int(text) for text in texts])
        (log_p,) = laws().log_probabilities(np.arange(5), [epsilon])
        cdf = np.cumsum(np.exp(log_p), axis=1)[[TEXTS[number] for number in numbers]]
        units = (noise.uniforms(3)[..., None] > cdf).sum(axis=2)
        return Rewrites([""] * len(texts), Ragged.of(units.tolist()))

    def guarantee(self, epsilon: float) -> None:
        return None

    def log_likelihoods(self, texts, candidates, rewrites, epsilons):
        (log_p,) = laws().log_probabilities(np.arange(5), epsilons)
        units = rewrites[0].units.values.reshape(-1, 3)
        return [log_p[np.array(TEXTS[:3])[candidates], units[:, None]].sum(axis=2)]


def test_a_mixture_of_both_laws_against_enumeration() -> None:
    mechanism = Hidden()
    texts, pairs = ["0", "1", "2"], np.array([[0, 1], [2, 1]])
    draw = draws(mechanism, texts, pairs, 2.0)
    assert draw is not None
    for pair, result in zip(pairs, sampled(draw, 2, stream, Sampling(alpha=SURE, draws=12_800)), strict=True):
        assert result.log_error.low <= math.log(truth(pair, 2.0) / 2) <= result.log_error.high
        delta = result.deltas(np.ones(1))
        assert delta.low[0] <= 1 - truth(pair, 2.0, 1.0) <= delta.high[0]
    sample = mixed(mechanism, texts, np.repeat(pairs[:1], 4000, axis=0), (2.0, Noise.named(4000, "m")))
    other = np.exp(sample.log_rho - sample.loss / 2)  # P' / m, whose mean is 1
    assert other.mean() == pytest.approx(1, abs=6 * other.std() / 4000**0.5)


def test_the_rows_of_a_mechanism_with_likelihoods_alone() -> None:
    """The mean over pairs inside its 99 % interval, at a fixed stream; at epsilon 40 the draws do not settle it."""
    weights = np.array([0.5, 0.2, 0.3])
    pairs = Pairs(np.array([[0, 1], [0, 2], [1, 2]]), weights, np.zeros(3, bool))
    measured = measure(Hidden(), ["0", "1", "2"], [2.0, 40.0], pairs)
    table = measured.losses
    assert table["pairs"].to_list() == ["all", "all"]
    assert table["method"].to_list() == [IMPORTANCE, AT_LEAST]
    assert table["worst"].null_count() == table["relative_epsilon"].null_count() == 2
    for row in table.iter_rows(named=True):
        error = sum(w * truth(pair, row["epsilon"]) / 2 for w, pair in zip(weights, pairs.numbers, strict=True))
        assert row["average_low"] <= float(guess_loss(np.log([error]))[0]) <= row["average_high"]
    assert table["error"].to_list() == [pytest.approx((table["average_high"] - table["average_low"])[0] / 2), None]
    assert table["average"][1] == table["average_low"][1]
    curve = measured.curves.filter(pl.col("epsilon") == 2)
    for level, low, high in curve.select("level", "delta_low", "delta_high").head(20).iter_rows():
        delta = 1 - sum(w * truth(pair, 2.0, level) for w, pair in zip(pairs.weights, pairs.numbers, strict=True))
        assert low <= delta <= high


def test_draws_that_cannot_settle_it_say_at_least() -> None:
    """A mean of at most e^-30, of which 6,400 draws of a mixture see nothing: at least about ln 6,400 - 1."""
    unseen = lambda numbers, noise: Between(  # noqa: E731
        np.full(len(numbers), math.log(2) - 30), np.full(len(numbers), 60.0), np.zeros(len(numbers))
    )
    (result,) = sampled(unseen, 1, stream, Sampling(draws=6400))
    assert result.method == AT_LEAST
    assert result.draws == 6400
    losses = guess_losses(result.log_error)
    assert losses.low == pytest.approx(math.log(6400) - 1, abs=0.5)
    assert losses.high > 29


@pytest.mark.slow
def test_stopping_at_a_width_costs_no_coverage() -> None:
    """2,000 losses, each stopped when its interval is narrow: misses beyond alpha = 0.1 by chance once in 10^9."""
    table, alpha, runs = laws(), 0.1, 2000
    error = math.log(truth((0, 1), 2.0) / 2)
    results = sampled(
        of([(0, 1)] * runs, 2.0, table), runs, stream, Sampling(width=0.6, first=20, draws=640, alpha=alpha)
    )
    assert len({result.draws for result in results}) > 2
    missed = sum(not result.log_error.low <= error <= result.log_error.high for result in results)
    assert missed <= stats.binom.isf(1e-9, runs, alpha)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"width": 0}, ("EPS-A082", "width", "0")),
        ({"first": 0}, ("EPS-A083", "first", "10000", "0")),
        ({"first": 300, "draws": 200}, ("EPS-A083", "first", "200", "300")),
        ({"alpha": 1}, ("EPS-A084", "alpha", "1")),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, float], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Sampling(**settings)
