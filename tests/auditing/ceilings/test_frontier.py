"""Ceilings are never below any mechanism, some mechanism reaches them, and for two texts they match the formula."""

from __future__ import annotations

import math
import resource
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import epsilometer
from epsilometer.auditing.ceilings.frontier import (
    TextSet,
    frontier,
    frontiers,
    loss_of,
    mean,
    subsets,
    success_of,
    under_pure_epsilon,
)
from epsilometer.auditing.ceilings.programmes import Solved, largest
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from tests.support.refusals import refused


class Channel:
    """The channel that reaches a ceiling, as a mechanism on six texts: subsets of them come out, shown as vectors."""

    has_budget = False
    inputs = tuple(f"text number {word}" for word in ("one", "two", "three", "four", "five", "six"))
    releases = frozenset({"text", "units"})

    def __init__(self, texts: TextSet, success: float) -> None:
        held, worths, met = subsets(len(self.inputs)), texts.worths(), texts.met()
        of_all = np.ones(len(self.inputs))
        w = linprog(-worths, A_ub=met[None] / 2, b_ub=[success], A_eq=held.T, b_eq=of_all).x
        self.law = w * held.T / (w * held.T).sum(axis=1, keepdims=True)
        outputs = held @ (texts.sources[:, None] * texts.vectors)
        self.outputs = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
        self.output_texts = [" ".join(map(str, np.flatnonzero(row))) for row in held]

    def guarantee(self, epsilon: float) -> None:
        return None

    def laws(self, texts: Sequence[str]) -> Laws:
        with np.errstate(divide="ignore"):
            logs = np.log(self.law)
        rows = Ragged.single(np.array([self.inputs.index(text) for text in texts]))
        return Laws(rows, logs.shape[1], lambda numbers, epsilons: (logs[numbers] for _ in epsilons))

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([self.output_texts[i] for i in units.values], units)


def unit(rng: np.random.Generator, count: int, dimensions: int) -> np.ndarray:
    vectors = rng.standard_normal((count, dimensions)) + 0.5
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def random_set(rng: np.random.Generator, count: int) -> TextSet:
    pairs = np.stack(np.triu_indices(count, 1), axis=1)
    pairs = pairs[rng.random(len(pairs)) < 0.7] if count > 2 else pairs
    pairs = pairs if len(pairs) else np.array([[0, 1]])
    weights = rng.dirichlet(np.ones(len(pairs)))
    return TextSet(unit(rng, count, 3), pairs, weights)


def measured(texts: TextSet, law: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """The best adversary's mean success, and the worth, of a channel [K, outputs] that releases unit vectors."""
    largest = np.maximum(law[texts.pairs[:, 0]], law[texts.pairs[:, 1]]).sum(axis=1) / 2
    worth = (texts.sources[:, None] * law * (texts.vectors @ outputs.T)).sum()
    return float(largest @ texts.weights), float(worth)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 8), st.floats(0.05, 5))
def test_no_channel_is_above(seed: int, count: int, outputs: int, concentration: float) -> None:
    rng = np.random.default_rng(seed)
    texts = random_set(rng, count)
    law = rng.dirichlet(np.full(outputs, concentration), count)
    # The best output vector for this law is the weighted mean of its source texts.
    best = (texts.sources[:, None] * law).T @ texts.vectors
    best /= np.maximum(np.linalg.norm(best, axis=1, keepdims=True), 1e-12)
    success, worth = measured(texts, law, best)
    assert worth <= frontier(texts).ceiling(success) + 1e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.floats(0.1, 4))
def test_no_channel_of_pure_epsilon_is_above(seed: int, count: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    texts = random_set(rng, count)
    law = rng.dirichlet(np.ones(6), count)
    share = 1.0  # share of the law in its mixture with the mean law, reduced until the worst ratio is e^epsilon
    while np.log(law / law[:, None]).max() > epsilon:
        share *= 0.9
        law = share * law + (1 - share) * law.mean(axis=0)
    best = (texts.sources[:, None] * law).T @ texts.vectors
    best /= np.maximum(np.linalg.norm(best, axis=1, keepdims=True), 1e-12)
    assert measured(texts, law, best)[1] <= under_pure_epsilon([texts], epsilon)[0] + 1e-6


@pytest.mark.parametrize("success", [0.5, 0.6, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("count", [2, 5, 8])
def test_the_ceiling_is_reached_by_its_own_channel(count: int, success: float) -> None:
    """A is released with probability w_A for every text in A; w by the programme itself, solved anew."""
    texts = TextSet.of_all_pairs(unit(np.random.default_rng(count), count, 4))
    held, worths, met = subsets(count), texts.worths(), texts.met()
    w = linprog(-worths, A_ub=met[None] / 2, b_ub=[success], A_eq=held.T, b_eq=np.ones(count)).x
    law = w * held.T
    outputs = held @ (texts.sources[:, None] * texts.vectors)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    reached, worth = measured(texts, law, outputs)
    assert law.sum(axis=1) == pytest.approx(1)
    assert reached <= success + 1e-6
    ceiling = float(frontier(texts).ceiling(success))
    assert worth <= ceiling + 1e-6
    assert worth == pytest.approx(ceiling, abs=1e-6)


@pytest.mark.parametrize("angle", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0, 4.0])
def test_two_texts_have_the_closed_form(angle: float, loss: float) -> None:
    """F = tau + (1 - tau) cos(theta / 2), tau = tanh(l / 2)."""
    texts = TextSet.of_all_pairs(np.array([[1.0, 0], [math.cos(angle), math.sin(angle)]]))
    tau = math.tanh(loss / 2)
    expected = tau + (1 - tau) * math.cos(angle / 2)
    assert frontier(texts).ceiling(success_of(loss)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alike", [False, True])
def test_frontiers_are_those_of_a_programme_at_every_success(alike: bool) -> None:
    """Sets of different sizes side by side; with texts that are alike, many subsets have the same worth."""
    rng = np.random.default_rng(5)
    served = [random_set(rng, count) for count in (7, 4, 2, 7, 9)] + [TextSet.of_all_pairs(unit(rng, 6, 3))]
    if alike:
        served = [
            TextSet(texts.vectors[np.arange(len(texts.vectors)) // 3], texts.pairs, texts.weights) for texts in served
        ]
    bent = 0
    for texts, bounds in zip(served, frontiers(served), strict=True):
        held = subsets(len(texts.vectors))
        for success in np.linspace(0.5, 1, 23):
            solved = linprog(
                -texts.worths(), texts.met()[None] / 2, [success], held.T, np.ones(held.shape[1]), method="highs"
            )
            assert bounds.ceiling(success) == pytest.approx(-solved.fun, abs=1e-6)
            assert np.interp(success, bounds.at, bounds.lower) <= -solved.fun + 1e-6
        bent += len(bounds.at) > 2
    assert bent > 2  # the cases in which pairs are audited unequally often


def test_the_mean_over_sets_is_the_best_division_of_success() -> None:
    """Against a grid of all divisions of the success between two sets."""
    rng = np.random.default_rng(1)
    first, second = (frontier(random_set(rng, 5)) for _ in range(2))
    both = mean([first, second])
    for success in (0.55, 0.7, 0.9):
        left = np.linspace(max(0.5, 2 * success - 1), min(1, 2 * success - 0.5), 2001)
        best = (first.ceiling(left) + second.ceiling(2 * success - left)).max() / 2
        assert both.ceiling(success) == pytest.approx(best, abs=1e-4)


def test_connected_pairs_bind() -> None:
    """Five disjoint pairs of ten texts allow more than all 45 pairs among them."""
    vectors = unit(np.random.default_rng(0), 10, 8)
    apart = TextSet(vectors, np.arange(10).reshape(5, 2), np.full(5, 0.2))
    every = TextSet.of_all_pairs(vectors)
    assert frontier(apart).ceiling(success_of(1.0)) > frontier(every).ceiling(success_of(1.0)) + 0.03


def test_read_backwards() -> None:
    bounds = frontier(random_set(np.random.default_rng(2), 6))
    for loss in (0.3, 1.0, 3.0):
        worth = float(bounds.ceiling(success_of(loss)))
        assert loss_of(bounds.needed(worth)) == pytest.approx(loss, abs=1e-6)
    assert bounds.needed(-1.0) == 0.5
    assert bounds.needed(1.1) == math.inf


@pytest.mark.parametrize("length", [1.5, math.nan, math.inf])
def test_a_worth_without_bounds_has_no_ceiling(length: float) -> None:
    with refused("EPS-A048"):
        TextSet.of_all_pairs(unit(np.random.default_rng(0), 4, 3) * length)


@pytest.mark.parametrize("success", [0.6, 0.75, 0.9])
def test_the_audit_measures_that_the_ceiling_is_reached(success: float) -> None:
    """The programme's own channel as a mechanism: the exact loss of its law, and the worth of what it draws.

    The mean of 20,000 draws, bounded by 1, is further than .03 from its law's with probability below 1e-3 (Hoeffding).
    """
    vectors = unit(np.random.default_rng(3), 6, 4)
    channel = Channel(TextSet.of_all_pairs(vectors), success)
    by_law = epsilometer.exact_loss(list(channel.inputs), channel, design=epsilometer.Design(temperature=0))
    (average,) = by_law.filter(pairs="all")["average"]
    bounds = frontier(TextSet.of_all_pairs(vectors))
    assert success_of(average) <= success + 1e-6
    source = np.arange(20_000) % 6
    sampled = channel.rewrite([channel.inputs[i] for i in source], NO_BUDGET, Noise.named(len(source), "channel"))
    assert sampled.units is not None
    worth = (vectors[source] * channel.outputs[sampled.units.values]).sum(axis=1).mean()
    assert worth == pytest.approx(float(bounds.ceiling(success_of(average))), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 10])
def test_two_hundred_sets_at_twenty_losses_are_two_hundred_programmes(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All losses of a set at once, and all sets at once, in place of 4,000 programmes."""
    rounds: list[int] = []

    def counted(values: np.ndarray, *rest: np.ndarray) -> Solved:
        rounds.append(len(values))
        return largest(values, *rest)

    monkeypatch.setattr("epsilometer.auditing.ceilings.frontier.largest", counted)
    rng = np.random.default_rng(0)
    whole = mean(frontiers([TextSet.of_all_pairs(unit(rng, size, 384)) for _ in range(200)]))
    assert np.isfinite(whole.ceiling(success_of(np.linspace(0, 4, 20)))).all()
    assert rounds == [200]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 * 2**20  # KiB, on Linux


@pytest.mark.parametrize("count", [1, 13])
def test_sets_that_are_too_small_or_large_are_refused(count: int) -> None:
    with refused("EPS-A047", "12", str(count)):
        TextSet(unit(np.random.default_rng(0), count, 3), np.array([[0, 0]]), np.ones(1))
