"""Confident guesses prove nearly all of a pure epsilon where the success rate proves half, and never more than it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import epsilometer
from epsilometer.auditing.estimation.abstention import guess_loss, levels, tail, worst_output
from epsilometer.auditing.estimation.successes import estimate, loss_at, success_bound
from epsilometer.auditing.trials.design import Design
from epsilometer.core.attack import ByScore, Context, margins
from epsilometer.core.mechanism import Rewrites


def unary(trials: int, epsilon: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric unary encoding of two values: the optimal adversary's hits, and how sure it is (nats)."""
    keep = 1 / (1 + math.exp(-epsilon / 2))
    own, other = rng.random(trials) < keep, rng.random(trials) >= keep
    guess = np.where(own == other, rng.random(trials) < 0.5, own)
    return guess, epsilon * (own != other)


def response(
    trials: int, epsilon: float, candidates: int, rng: np.random.Generator, delta: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Randomised response that gives the source away with probability delta, and is most confident then."""
    revealed = rng.random(trials) < delta
    return revealed | (rng.random(trials) < success_bound(epsilon, candidates)), revealed.astype(float)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_guessing_where_it_is_sure_proves_what_the_success_rate_halves(epsilon: float) -> None:
    """In the limit the optimal adversary's success rate shows epsilon / 2, the outputs 10 and 01 all of it."""
    right, scores = unary(100_000, epsilon, np.random.default_rng(0))
    rate = estimate(int(right.sum()), 100_000).loss
    proved = worst_output(right, scores, 2, 0.01)
    assert rate <= epsilon / 2
    assert 0.93 * epsilon < proved <= epsilon


@pytest.mark.parametrize(
    ("epsilon", "candidates", "delta"), [(0.0, 2, 0.0), (1.0, 2, 0.0), (1.0, 5, 0.0), (1.0, 2, 0.01), (0.5, 4, 0.02)]
)
def test_the_bound_holds_as_often_as_it_says(epsilon: float, candidates: int, delta: float) -> None:
    """alpha = .2, so at most 10 % of 200 bounds lie above the truth: more than 34 with probability 1e-3 each."""
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(200):
        right, scores = response(400, epsilon, candidates, rng, delta=delta)
        noise = rng.random(400) if delta == 0 else scores  # any rule that does not know the target
        above += worst_output(right, noise, candidates, 0.2, delta=delta) > epsilon
    assert above <= binom.isf(1e-3, 200, 0.1)


def test_delta_must_be_paid_for() -> None:
    """Guesses of what delta gives away are right: a pure bound is refuted by it, the bound with delta is not."""
    right, scores = response(20_000, 1.0, 2, np.random.default_rng(2), 0.02)
    assert worst_output(right, scores, 2, 0.01) > 3
    assert 0.9 < worst_output(right, scores, 2, 0.01, delta=0.02) <= 1


def test_a_rule_that_knows_the_hits_is_caught() -> None:
    """Levels by what is right, not by scores, prove a loss of what has none."""
    right = np.random.default_rng(3).random(2000) < 0.5
    assert worst_output(right, np.zeros(2000), 2, 0.01) == 0
    assert worst_output(right, right.astype(float), 2, 0.01) > 4


def test_without_delta_it_is_clopper_pearson_and_with_it_teda() -> None:
    assert guess_loss(80, 100, 400, 2) == loss_at(estimate(80, 100).success_rate, 2) - (
        estimate(80, 100).point - estimate(80, 100).loss
    )
    assert guess_loss(80, 100, 100, 2, delta=1e-12) == pytest.approx(estimate(80, 100).loss, abs=1e-6)
    # All trials guessed: one success is subtracted, or the bound is by p* (TeDA's eq. 10).
    for loss, k, delta in [(1.0, 2, 0.1), (0.5, 5, 0.03)]:
        exact = binom.sf(69, 100, success_bound(loss, k, delta))
        assert tail(loss, 70, 100, 100, candidates=k, delta=delta) == pytest.approx(exact, rel=1e-9)
    assert guess_loss(700, 1000, 1000, 2, delta=0.1) == pytest.approx(estimate(700, 1000, delta=0.1).loss, abs=1e-6)


def test_levels_take_in_all_that_are_as_sure() -> None:
    assert levels(np.zeros(1000)) == [1000]
    assert levels(-np.arange(64.0)) == [16, 32, 64]
    assert levels(-np.repeat([0.0, 1.0], [530, 470])) == [530, 1000]
    assert levels(np.full(5, np.inf)) == [5]


def test_how_sure_a_guess_is() -> None:
    scores = np.array([[1.0, 3.0, 2.5], [-np.inf, -4.0, -np.inf], [-np.inf] * 3, [2.0, 2.0, 0.0]])
    np.testing.assert_allclose(margins(scores, np.array([1, 1, 0, 0])), [0.5, np.inf, 0, 0])


class Last(ByScore):
    """Scores a candidate by how long the rewrite's last run of its first letter is."""

    def score_grid(self, rewrites: list[Rewrites], candidates: np.ndarray, contexts: list[Context]) -> list[np.ndarray]:
        first = np.array([text[0] for text in contexts[0].texts])
        return [
            np.array(
                [[text.count(x) for x in row] for text, row in zip(output.texts, first[candidates], strict=True)],
                float,
            )
            for output in rewrites
        ]


def bits(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Symmetric unary encoding over two texts, as a black box."""
    keep = 1 / (1 + math.exp(-epsilon / 2))
    return "".join(letter for letter in "ab" if (letter == text[0]) == (rng.random() < keep))


def test_a_black_box_is_told_by_its_clearest_outputs() -> None:
    """The bound lies above epsilon with probability .005; fixed seed."""
    design = Design(temperature=0)
    table = epsilometer.audit(["a text", "b text"], bits, [1.0, 2.0], [Last(), "length"], trials=6000, design=design)
    for epsilon in (1.0, 2.0):
        rows = {row["attack"]: row for row in table.filter(epsilon=epsilon).to_dicts()}
        assert rows["Last"]["loss"] <= epsilon / 2
        assert 0.8 * epsilon < rows["Last"]["worst_output"] <= epsilon
        assert rows["length"]["worst_output"] == 0
        assert rows["strongest"]["worst_output"] <= rows["Last"]["worst_output"]


def test_an_attack_without_scores_has_no_such_bound() -> None:
    class Silent:
        def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
            return np.zeros(len(candidates), np.int16)

    table = epsilometer.audit(["a", "b"], bits, [1.0], [Silent()], trials=100, design=Design(temperature=0))
    assert table["worst_output"].to_list() == [None]


@pytest.mark.parametrize("scores", ["few", "one", "many", "infinite"])
def test_counted_scores_prove_what_ordered_ones_do(scores: str) -> None:
    """Beside the definition: the most confident T, T / 2, ... trials with their ties, in the order of their scores."""
    rng = np.random.default_rng(8)
    right, draw = rng.random(3000) < 0.7, rng.normal(size=3000)
    score = {
        "few": np.round(draw),
        "one": np.zeros(3000),
        "many": draw + right,
        "infinite": np.where(draw > 2, np.inf, draw),
    }[scores]
    order = np.argsort(-score, kind="stable")
    sizes, hits = levels(score[order]), np.cumsum(right[order])
    for delta in (0.0, 1e-4):
        each = [guess_loss(int(hits[m - 1]), m, 3000, 2, alpha=0.01 / len(sizes), delta=delta) for m in sizes]
        assert worst_output(right, score, 2, 0.01, delta=delta) == max(each)
