"""A loss proved by utility is below the exact loss in a share 1 - alpha of audits, and above 0 for high utility."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.auditing.ceilings.certificate import proved_loss
from epsilometer.auditing.ceilings.frontier import Frontier, TextSet, frontier
from tests.support.refusals import refused

SIZE, TRIALS = 5, 4


def sets(rng: np.random.Generator, count: int) -> list[TextSet]:
    vectors = rng.standard_normal((count, SIZE, 6))
    return [TextSet.of_all_pairs(vector / np.linalg.norm(vector, axis=1, keepdims=True)) for vector in vectors]


def coin(rng: np.random.Generator, texts: TextSet, loss: float) -> float:
    """The mean worth of some trials of the text itself with probability tanh(loss / 2), else the texts' mean direction.

    Whose loss is `loss` exactly, for any two texts.
    """
    middle = texts.vectors.sum(axis=0) / np.linalg.norm(texts.vectors.sum(axis=0))
    shown = rng.random(TRIALS) < math.tanh(loss / 2)
    return float(np.where(shown, 1.0, texts.vectors[rng.integers(SIZE, size=TRIALS)] @ middle).mean())


@pytest.mark.slow
def test_it_exceeds_the_exact_loss_no_more_often_than_alpha() -> None:
    """At alpha = .1, more than 40 of 200 audits would do so with probability below 1e-4 (binomial).

    The mechanism keeps nearly all that is possible, so that most audits prove something.
    """
    rng = np.random.default_rng(0)
    pool = [(texts, frontier(texts)) for texts in sets(rng, 60)]
    proved = []
    for _ in range(200):
        sampled = [pool[i] for i in rng.integers(len(pool), size=200)]
        worths = np.array([coin(rng, texts, 1.0) for texts, _ in sampled])
        proved.append(proved_loss([bounds for _, bounds in sampled], worths, alpha=0.1))
    assert sum(loss > 1.0 for loss in proved) <= 40
    assert np.median(proved) > 0.3


@pytest.mark.parametrize("count", [100, 400])
def test_it_grows_with_the_sets_where_texts_are_released(count: int) -> None:
    rng = np.random.default_rng(1)
    bounds = [frontier(texts) for texts in sets(rng, 25)] * (count // 25)
    few, many = (proved_loss(bounds[:n], np.ones(n)) for n in (count // 2, count))
    assert 0 < few < many < math.inf


def test_little_worth_proves_nothing() -> None:
    rng = np.random.default_rng(2)
    bounds = [frontier(texts) for texts in sets(rng, 20)]
    assert proved_loss(bounds, np.zeros(20)) == 0
    assert proved_loss(bounds, np.full(20, np.nan)) == 0


def test_a_flat_ceiling_proves_nothing() -> None:
    """Where one output serves all texts fully, worth needs no loss."""
    flat = Frontier(np.array([0.5, 1.0]), np.ones(2), np.ones(2))
    assert proved_loss([flat] * 200, np.ones(200)) == 0


@pytest.mark.parametrize("worth", [1.5, -7.0, math.inf])
def test_a_worth_without_bounds_is_refused(worth: float) -> None:
    """No interval for means of bounded numbers would cover it."""
    flat = Frontier(np.array([0.5, 1.0]), np.ones(2), np.ones(2))
    with refused("EPS-A046", "worth", f"{worth:g}"):
        proved_loss([flat] * 8, np.array([*np.zeros(7), worth]))
    assert proved_loss([flat] * 8, np.full(8, 1 + 1e-7)) == 0, "rounding is none"


def test_too_few_sets_are_refused() -> None:
    with refused("EPS-A045", "4", "3"):
        proved_loss([Frontier(np.array([0.5, 1.0]), np.ones(2), np.ones(2))] * 3, np.ones(3))
