"""The test of outputs against their stated law: its level, and its power for departures in rare outputs only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import epsilometer
from epsilometer.auditing.estimation import goodness_of_fit
from epsilometer.auditing.estimation.goodness_of_fit import outputs_fit
from epsilometer.auditing.trials.design import Design
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from tests.support.sparing import first
from tests.support.spelled import Spelled

TRIALS, EPSILON = 300, 1.0


def stated(law: NDArray[np.float64], seed: int = 0) -> Laws:
    """20 texts of five units, each of which has some row of the law."""
    rows = np.random.default_rng(seed).integers(0, len(law), (20, 5))
    with np.errstate(divide="ignore"):
        log_law = np.log(law)
    return Laws(Ragged.of(rows.tolist()), law.shape[1], lambda rows, epsilons: (log_law[rows] for _ in epsilons))


def p_value(law: NDArray[np.float64], drawn_from: NDArray[np.float64], seed: int = 0) -> float:
    source = np.arange(TRIALS) % 20
    (units,) = sample(stated(drawn_from), source, [EPSILON], [Noise.named(TRIALS, "fit", seed)])
    return outputs_fit(stated(law), source, [units], [EPSILON])[0]


def without(law: NDArray[np.float64], outputs: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The law without some outputs: [rows, outputs]."""
    left = np.where(outputs, 0.0, law)
    return np.asarray(left / left.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(("rows", "outputs"), first(1, [(2, 3), (10, 40), (90, 500)]))
def test_a_sampler_that_follows_its_law_is_seldom_refuted(rows: int, outputs: int) -> None:
    """200 samples, judged at .05: more alarms by chance once in 10^9."""
    law = np.random.default_rng(1).dirichlet(np.full(outputs, 0.3), rows)
    alarms = sum(p_value(law, law, seed) <= 0.05 for seed in range(200))
    assert alarms <= stats.binom.isf(1e-9, 200, 0.05)


def test_an_output_of_fifteen_per_cent_that_never_comes_is_noticed() -> None:
    """Of one word in ten: of 150 draws or so of that word none has it, which is certain, as it never comes."""
    law = np.random.default_rng(2).dirichlet(np.ones(30), 10)
    law[3] = np.roll(np.append([0.15], np.full(29, 0.85 / 29)), 11)
    assert p_value(law, without(law, (np.arange(10) == 3)[:, None] & (np.arange(30) == 11))) < 1e-4


def test_a_tail_that_is_cut_off_is_noticed_where_every_unit_has_a_law_of_its_own() -> None:
    """The least likely 2 % of every law never come: of 1,500 draws 30 should be there."""
    law = np.sort(np.random.default_rng(3).dirichlet(np.full(200, 0.2), 100), axis=1)
    assert p_value(law, without(law, law.cumsum(axis=1) < 0.02)) < 1e-4


def test_impossible_outputs_and_numbers_of_units_refute_it_at_once() -> None:
    law = np.array([[0.5, 0.5, 0.0]])
    units = Ragged.of([[2]])
    laws = Laws(Ragged.of([[0]]), 3, lambda rows, epsilons: (np.log(law + 1e-300)[rows] for _ in epsilons))
    assert outputs_fit(stated(law), np.zeros(1, int), [Ragged.of([[0, 1, 0, 1, 2]])], [EPSILON]) == [0.0]
    assert outputs_fit(laws, np.zeros(1, int), [Ragged.of([[0, 1]])], [EPSILON]) == [0.0]
    assert outputs_fit(laws, np.zeros(1, int), [units], [EPSILON])[0] <= 1
    none = Laws(Ragged.of([[]]), 3, lambda rows, epsilons: (law[rows] for _ in epsilons))
    assert outputs_fit(none, np.zeros(3, int), [Ragged.of([[], [], []])], [EPSILON]) == [1.0]


def test_no_more_laws_are_computed_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that most draws come from; what departs elsewhere goes unseen."""
    monkeypatch.setattr(goodness_of_fit, "_ENTRIES", 3)
    counts = []

    def rows_of(rows: NDArray[np.integer], epsilons: Sequence[float]):  # type: ignore[no-untyped-def]
        counts.append(rows.tolist())
        return (np.log(np.full((len(rows), 3), 1 / 3)) for _ in epsilons)

    laws = Laws(Ragged.of([[0, 1], [1, 2]]), 3, rows_of)
    outputs_fit(laws, np.array([0, 1]), [Ragged.of([[0, 1], [2, 0]])], [EPSILON])
    assert counts == [[1]]


class Skips(Spelled):
    """Never gives the output a, which its law gives every word with probability .15; the rest in proportion."""

    def __init__(self) -> None:
        rest = np.random.default_rng(4).dirichlet(np.ones(4), 5)
        super().__init__(np.log(np.hstack([np.full((5, 1), 0.15), 0.85 * rest])))

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        law = self.law.copy()
        law[:, 0] = -60.0  # practically impossible
        return Spelled(law - np.logaddexp.reduce(law, axis=1, keepdims=True)).rewrite(texts, epsilon, noise)


@pytest.mark.parametrize("attacks", [["likelihood"], ["lexical"]])
def test_the_audit_says_so(attacks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Hits and posteriors agree, as the output tells no two texts apart. Missed with probability below 1e-20."""
    texts = [f"{a} {b}" for a in "abcde" for b in "abcde"]
    row = epsilometer.audit(texts, Skips(), [1.0], attacks, 300, design=Design(temperature=0)).row(0, named=True)
    assert row["departure_p"] > 0.001
    assert row["fit_p"] < 1e-9
    assert row["departs"]
    assert row["posterior_loss"] is None
    assert "sampler departs from its law at epsilon 1" in capsys.readouterr().err
    true = epsilometer.audit(texts, Spelled(Skips().law), [1.0], attacks, 300, design=Design(temperature=0))
    assert not true["departs"].any()
    assert true["fit_p"].null_count() == 0


@pytest.mark.parametrize("concentration", [0.001, 0.3, 5.0])
def test_unlikely_outputs_lie_in_the_last_part_as_they_would_sorted(concentration: float) -> None:
    law = np.random.default_rng(4).dirichlet(np.full(2_000, concentration), 5) + 1e-12
    law /= law.sum(axis=1, keepdims=True)
    assert np.array_equal(goodness_of_fit._places(law), goodness_of_fit._places_of_all(law))
