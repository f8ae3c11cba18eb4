"""The exact loss of noisy votes: golden values, a naive implementation, the claim, and the ways to ask."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.corpora.one_text import OneText
from epsilometer.auditing.corpora.vote_loss import delta, guess_loss, of_pairs, outcome_laws, pure_loss, success
from epsilometer.auditing.exact_loss.from_texts import chosen
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from tests.support.corpora import PUBLIC, TEXTS, words_as_vectors
from tests.support.refusals import refused

APART = np.eye(8, dtype=int)
GOLDEN = {  # by epsilon, from reference tables: k = 2, 3, 4; 4 texts, two in one cell; 2 + 2 in two cells; 3 + 1
    1.0: (0.500, 0.556, 0.580, 0.477, 0.304),
    2.0: (1.000, 1.099, 1.146, 0.898, 0.547),
    4.0: (2.000, 2.148, 2.229, 1.538, 0.859),
}


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_golden_losses_of_one_text(epsilon: float) -> None:
    rate = epsilon / 2
    votes = [APART[:2], APART[:3], APART[:4], APART[[0, 0, 1, 2]], APART[[0, 0, 1, 1]]]
    assert [guess_loss(each, rate) for each in votes] == pytest.approx(GOLDEN[epsilon], abs=6e-4)
    assert guess_loss(APART[[0, 0, 0, 1]], rate) == pytest.approx(guess_loss(votes[-1], rate))
    assert guess_loss(APART[[0, 0, 0, 0]], rate) == 0


def test_a_closed_form_for_k_candidates_in_k_cells() -> None:
    p = 1 / (1 + math.exp(-0.5))
    for k in (2, 3, 4, 6):
        expected = p * (1 - p**k) / (k * (1 - p)) + (1 - p) * p ** (k - 1) / k
        assert success(APART[:k], 0.5) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "together", "apart"), [(1.0, 0.494, 0.274), (4.0, 1.866, 1.111)])
def test_golden_losses_of_four_texts_a_person(epsilon: float, together: float, apart: float) -> None:
    rate = epsilon / 8
    moved = np.array([[4, 0], [0, 4]])
    scattered = np.array([[1] * 4 + [0] * 4, [0] * 4 + [1] * 4])
    assert guess_loss(moved, rate) == pytest.approx(together, abs=5e-4)
    assert guess_loss(scattered, rate) == pytest.approx(apart, abs=5e-4)
    assert pure_loss(moved, rate) == pytest.approx(epsilon)
    assert pure_loss(scattered, rate) == pytest.approx(epsilon)


def test_in_or_out_is_epsilon() -> None:
    assert guess_loss(np.array([[1], [0]]), 1.0) == pytest.approx(1.0)


def test_delta_at_a_level() -> None:
    for epsilon in (3.0, 4.0, 6.0):
        p = 1 / (1 + math.exp(-epsilon / 2))
        expected = p**2 * max(1 - math.exp(4 - epsilon), 0)
        assert delta(APART[:2], epsilon / 2, 4.0) == pytest.approx(expected, abs=1e-12)


def naive(votes: NDArray[np.int64], rate: float, window: int = 60) -> NDArray[np.float64]:
    """The laws of all tables within a window, enumerated."""
    q, z = math.exp(-rate), range(-window, window + 1)
    cells = [[[(1 - q) / (1 + q) * q ** abs(t - own) for t in z] for own in row] for row in votes.tolist()]
    return np.array([[math.prod(each) for each in product(*of_one)] for of_one in cells])


def test_outcomes_are_sufficient() -> None:
    """Against all 121^2 tables of two cells, whose rest has a probability below 1e-12."""
    votes = np.array([[3, 0], [1, 1], [0, 2]])
    laws = naive(votes, 0.9)
    assert success(votes, 0.9) == pytest.approx(laws.max(0).sum() / 3, abs=1e-9)
    assert outcome_laws(votes, 0.9).sum(1) == pytest.approx(1)


def test_an_average_over_pairs_and_the_share_in_one_cell() -> None:
    cells = np.array([0, 0, 1, 2])
    loss, alike = of_pairs(cells, 0.5)
    pairs = [success(APART[[a, b]], 0.5) for i, a in enumerate(cells) for j, b in enumerate(cells) if i != j]
    assert alike == pytest.approx(1 / 6)
    assert loss == pytest.approx(math.log(np.mean(pairs) / (1 - np.mean(pairs))))


def test_too_many_outcomes_are_refused() -> None:
    with refused("EPS-A199"):
        outcome_laws(np.eye(40, dtype=int), 0.5)


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> OneText:
    words_as_vectors(monkeypatch)
    return OneText(VoteHistogram(resource=PUBLIC, m=4), 4)


def test_the_view_of_one_text_has_the_law_of_the_table(view: OneText) -> None:
    """The interval is over drawn pairs, at an error of .01 on a fixed seed."""
    pairs = chosen(TEXTS, 100, Design(temperature=0))
    (row,) = measure(view, TEXTS, [1.0], pairs).losses.filter(pairs="all").to_dicts()
    loss, _ = of_pairs(view.cells(TEXTS), 0.5)
    assert row["all_low"] <= loss <= row["all_high"]
    apart = view.cells(TEXTS)[pairs.numbers]
    right = np.where(apart[:, 0] == apart[:, 1], 0.5, 1 / (1 + math.exp(-0.5))) @ pairs.weights
    assert row["average"] == pytest.approx(math.log(right / (1 - right)), abs=1e-6)


def test_draws_of_the_view_have_the_law_of_the_noisy_table(view: OneText) -> None:
    """20,000 tables of one text, seeded: how often its own cell is at least 1, in both ways; 5 deviations."""
    count, p = 20_000, 1 / (1 + math.exp(-0.5))
    units = view.rewrite([TEXTS[0]] * count, 1.0, Noise.named(count, "bits")).units
    assert units is not None
    own = view.cells([TEXTS[0]])[0]
    table = view.mechanism.cell_noise(1.0).draw(count * 4, Noise.operating_system(1).exact).reshape(count, 4)
    for bits in (units.values.reshape(count, 4), (table + (np.arange(4) == own) >= 1)):
        expected = np.where(np.arange(4) == own, p, 1 - p)
        assert np.abs(bits.mean(0) - expected).max() < 5 * math.sqrt(p * (1 - p) / count)


@pytest.mark.parametrize("name", ["which_text", "worst_pair", "claim"])
def test_questions_are_asked_of_a_release(view: OneText, name: str) -> None:
    of = subject(list(TEXTS), view, 1.0, attacks=["likelihood"], design=Design(temperature=0))
    observed = question(name).observe(of, 400)
    assert observed


def test_which_text_is_answered_by_the_law(view: OneText) -> None:
    of = subject(list(TEXTS), view, 1.0, attacks=["likelihood"], design=Design(temperature=0))
    which = question("which_text")
    observed, why = which.by_law(of, which.limit(of, 0.6), 1000, errors=Errors())
    assert why is None
    assert observed is not None
    assert observed.evidence.covers.name == "EVERYONE"
