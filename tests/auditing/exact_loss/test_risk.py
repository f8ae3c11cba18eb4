"""The risk among k texts agrees with enumeration of every output of small laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.auditing.exact_loss.risk import largest_success

LEVELS = [i / 4 for i in range(60)]


def optimal(laws: np.ndarray) -> float:
    """How often the best guess names the source: for each output the text that gives it most often. laws: [k, y]."""
    return float(laws.max(axis=0).sum()) / len(laws)


def deltas(laws: np.ndarray) -> list[float]:
    """The mean delta over all ordered pairs of different texts, at every level."""
    pairs = list(itertools.permutations(laws, 2))
    return [float(np.mean([np.maximum(p - math.exp(level) * q, 0).sum() for p, q in pairs])) for level in LEVELS]


@st.composite
def some_laws(draw: st.DrawFn) -> np.ndarray:
    k, outputs = draw(st.integers(2, 4)), draw(st.integers(1, 5))
    weight = st.one_of(st.just(0.0), st.floats(1e-3, 1))
    rows = st.lists(weight, min_size=outputs, max_size=outputs).filter(any)
    weights = np.array(draw(st.lists(rows, min_size=k, max_size=k)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@given(some_laws())
def test_no_adversary_exceeds_it(laws: np.ndarray) -> None:
    success = largest_success(LEVELS, deltas(laws), len(laws))
    assert optimal(laws) <= success + 1e-12
    assert 1 / len(laws) - 1e-12 <= success <= 1
    if len(laws) == 2:
        assert success == pytest.approx(optimal(laws), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_randomised_response_meets_it(k: int, epsilon: float) -> None:
    """k texts as outputs, the own one e^epsilon times as likely as each other: delta(epsilon) = 0."""
    laws = np.full((k, k), 1.0) + np.eye(k) * math.expm1(epsilon)
    laws /= laws.sum(axis=1, keepdims=True)
    assert largest_success(LEVELS, deltas(laws), k) == pytest.approx(optimal(laws), abs=1e-12)
    assert optimal(laws) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + k - 1))


def test_where_nothing_is_known_every_guess_may_be_right() -> None:
    assert largest_success([], [], 10) == 1
    assert largest_success([0.0, 2000.0], [1.0, 1.0], 10) == 1
    assert largest_success([0.0, 2000.0], [0.0, 0.0], 10) == 0.1
