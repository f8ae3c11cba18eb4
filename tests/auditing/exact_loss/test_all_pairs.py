"""All pairs of texts against sums over all outputs."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax

import epsilometer
from epsilometer.accounting.convolution.grid import unit_losses
from epsilometer.auditing.exact_loss import all_pairs, unit_laws
from epsilometer.auditing.exact_loss.all_pairs import LOWER_BOUND, error_bounds, pure_losses, relative
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import all_of
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.core.laws import Laws
from epsilometer.core.ragged import Ragged
from tests.support.refusals import refused
from tests.support.spelled import Spelled

LETTERS = 3
TEXTS = [" ".join(letters) for n in (1, 2, 3) for letters in product("abc", repeat=n)][:24]


@st.composite
def laws(draw: st.DrawFn) -> NDArray[np.float64]:
    weights = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 1.0, -math.inf]))
    row = st.lists(weights, min_size=LETTERS, max_size=LETTERS).filter(lambda some: max(some) > -math.inf)
    rows = draw(st.lists(row, min_size=LETTERS, max_size=LETTERS))
    return np.asarray(log_softmax(draw(st.sampled_from([0.1, 1.0, 10.0])) * np.array(rows), axis=1))


def enumerated(mechanism: Spelled, first: str, second: str, epsilon: float) -> tuple[float, float]:
    """The pure loss, first before second, and the Bayes error."""
    p, q = mechanism.outputs(first, epsilon), mechanism.outputs(second, epsilon)
    with np.errstate(invalid="ignore"):
        loss = np.where(np.isneginf(p), -np.inf, p - q)
    return float(loss.max()), float(np.minimum(np.exp(p), np.exp(q)).sum() / 2)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(laws())
def test_pure_losses_and_bounds_are_those_of_all_outputs(law: NDArray[np.float64]) -> None:
    mechanism, epsilons = Spelled(law), (1.0, 3.0)
    table = mechanism.laws(TEXTS)
    for epsilon, units in zip(epsilons, unit_laws.unit_laws(table, np.arange(LETTERS), epsilons), strict=True):
        rows = {}
        for (first, second, pure), (_, _, bounds) in zip(
            pure_losses(table, units), error_bounds(table, units), strict=True
        ):
            for i, j in np.ndindex(pure.shape):
                rows[first[i], second[j]] = pure[i, j], bounds.low[i, j], bounds.high[i, j]
        for i, j in permutations(range(len(TEXTS)), 2):
            if len(TEXTS[i]) != len(TEXTS[j]):
                assert (i, j) not in rows
                continue
            pure, error = enumerated(mechanism, TEXTS[i], TEXTS[j], epsilon)
            largest, low, high = rows[i, j]
            assert largest == pure or abs(largest - pure) < 1e-9
            assert math.exp(low) <= error * (1 + 1e-9) + 1e-15
            assert error <= math.exp(high) * (1 + 1e-9)


def test_an_overlap_that_no_float_holds_keeps_its_logarithm() -> None:
    """Noise along a list of 2,000 places, so little that between its ends sqrt(P P') is e^-4000 everywhere."""
    places = np.arange(2000)
    law = np.asarray(log_softmax(-4.0 * np.abs(places - np.array([[0], [3], [1999]])), axis=1))
    (units,) = unit_laws.unit_laws(Spelled(law).laws(["a b c"]), np.arange(3), [1.0])
    for i, j in product(range(3), repeat=2):
        true = float(np.logaddexp.reduce((law[i] + law[j]) / 2))
        assert units.log_overlap[i, j] == pytest.approx(min(true, 0.0), rel=1e-9, abs=1e-9)


def test_relative_epsilon_names_texts_and_output() -> None:
    law = log_softmax(np.random.default_rng(3).normal(size=(LETTERS, LETTERS)), axis=1)
    mechanism = Spelled(law)
    ((every, equal),) = relative(mechanism, TEXTS, [1.5])
    assert every.loss == math.inf  # every output reveals whether the text has another length
    assert every.pair is not None
    assert len(TEXTS[every.pair[0]]) != len(TEXTS[every.pair[1]])
    same = [(i, j) for i, j in permutations(range(len(TEXTS)), 2) if len(TEXTS[i]) == len(TEXTS[j])]
    true = max(enumerated(mechanism, TEXTS[i], TEXTS[j], 1.5)[0] for i, j in same)
    assert equal.loss == pytest.approx(true, abs=1e-9)
    assert equal.pair is not None
    assert equal.witness is not None
    place = list(product("abc", repeat=3)).index(tuple(equal.witness.split()))
    first, second = (mechanism.outputs(TEXTS[text], 1.5)[place] for text in equal.pair)
    assert first - second == pytest.approx(true, abs=1e-9)


def test_every_pair_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Spelled(log_softmax(np.random.default_rng(6).normal(size=(LETTERS, LETTERS)), axis=1))
    table = epsilometer.exact_pairs(TEXTS, mechanism, [0.5, 2.0])
    same = [(i, j) for i, j in combinations(range(len(TEXTS)), 2) if len(TEXTS[i]) == len(TEXTS[j])]
    assert table.select("epsilon", "x", "other").rows() == [(e, i, j) for e in (0.5, 2.0) for i, j in same]
    for epsilon, i, j, pure, low, high in table.rows():
        there, error = enumerated(mechanism, TEXTS[i], TEXTS[j], epsilon)
        back, _ = enumerated(mechanism, TEXTS[j], TEXTS[i], epsilon)
        assert pure == pytest.approx(max(there, back), abs=1e-9)
        assert low - 1e-9 <= math.log((1 - error) / error) <= high + 1e-9
    monkeypatch.setattr(all_pairs, "_ENTRIES", 0)
    with refused("EPS-A075"):
        epsilometer.exact_pairs(TEXTS, mechanism, [1.0])
    with refused("EPS-A077"):
        epsilometer.exact_pairs(TEXTS, "mvc", [1.0])


def test_too_many_laws_leave_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Spelled(log_softmax(np.random.default_rng(4).normal(size=(LETTERS, LETTERS)), axis=1))
    texts = ["a b c", "c b a", "b a", "a c", "c c"]
    full, pairs = relative(mechanism, texts, [1.0, 2.0]), all_of(texts)
    monkeypatch.setattr(all_pairs, "_ENTRIES", 0)
    for (_, exactly), (every, equal) in zip(full, relative(mechanism, texts, [1.0, 2.0]), strict=True):
        assert every.loss == math.inf
        assert (equal.loss, equal.method) == (pytest.approx(exactly.loss, abs=1e-9), LOWER_BOUND)
        assert (equal.pair, equal.witness) == (exactly.pair, exactly.witness)
    # No text fits, so only the pairs that are always compared are left.
    monkeypatch.setattr(all_pairs, "_LONGEST", 3)
    ((_, nothing),) = relative(mechanism, texts, [2.0])
    assert nothing.loss == 0
    row = measure(mechanism, texts, [2.0], pairs).losses.row(1, named=True)
    assert row["relative_epsilon"] == pytest.approx(full[1][1].loss, abs=1e-9)
    assert (row["relative_method"], row["witness"]) == (LOWER_BOUND, full[1][1].witness)


def test_blocks_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Spelled(log_softmax(np.random.default_rng(5).normal(size=(8, 8)), axis=1))
    table = mechanism.laws(list("abcdefgh"))
    whole = unit_laws.unit_laws(table, np.arange(8), [1.0, 2.0])
    monkeypatch.setattr(unit_laws, "_CELLS", 2 * 2 * 3 * 8)  # three rows at a time
    monkeypatch.setattr(unit_laws, "_CACHE", 8)
    for law, other in zip(whole, unit_laws.unit_laws(table, np.arange(8), [1.0, 2.0]), strict=True):
        assert law.largest.tobytes() == other.largest.tobytes()
        np.testing.assert_allclose(law.log_overlap, other.log_overlap, atol=1e-14)  # sums in another order


def test_the_pairs_of_a_corpus_are_in_order() -> None:
    pairs = all_of(TEXTS)
    assert pairs.numbers.tolist() == [list(pair) for pair in combinations(range(len(TEXTS)), 2)]
    assert pairs.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-8, 1e-7, 1e-5])
def test_losses_next_to_nothing_lie_between_their_bounds(epsilon: float) -> None:
    """Twenty units that each lose so little that the overlap of their laws rounds to 1."""
    law = log_softmax(epsilon * np.random.default_rng(2).normal(size=(2, 1000)), axis=1)
    rows = Ragged.of([[0] * 20, [1] * 20])
    laws = Laws(rows, 1000, lambda rows, epsilons: (law[rows] for _ in epsilons))
    true = Product([unit_losses(law[0], law[1], epsilon / 100)] * 20).log_error()
    (_, _, bounds) = next(error_bounds(laws, unit_laws.unit_laws(laws, np.arange(2), [1.0])[0]))
    assert bounds.low[0, 1] <= true.low
    assert bounds.high[0, 1] >= true.high
