"""The coin: its loss is its budget, its tail is tanh(l / 2), and its claim is tight."""

from __future__ import annotations

import math

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.coin import Coin
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse

TEXTS = ("a short text", "another one", "a third of more words", "the last")
LEVELS = [0.5, 1.0, 2.0, 4.0]


@pytest.fixture
def coin() -> Coin:
    return Coin(resource=TEXTS)


def probabilities(coin: Coin, epsilon: float, texts: tuple[str, ...] = TEXTS) -> np.ndarray:
    laws = coin.laws(texts)
    (log_law,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return np.exp(log_law)


@pytest.mark.parametrize("level", LEVELS)
def test_the_best_guess_of_two_has_the_budget_as_its_loss(coin: Coin, level: float) -> None:
    law = probabilities(coin, level)
    success = np.maximum(law[0], law[1]).sum() / 2
    assert math.log(success / (1 - success)) == pytest.approx(level)


@pytest.mark.parametrize("level", LEVELS)
def test_the_claim_holds_and_is_tight_at_every_epsilon(coin: Coin, level: float) -> None:
    law, claim = probabilities(coin, level), coin.guarantee(level)
    assert claim is not None
    for epsilon in (0.0, 1.0, 4.0, 20.0):
        gap = np.maximum(0, law[0] - math.exp(epsilon) * law[1])
        bounded = gap[: len(TEXTS)].sum() + max(0.0, gap[-1])
        assert bounded == pytest.approx(claim.delta) == pytest.approx(math.tanh(level / 2))


def test_a_text_that_is_not_on_the_list_is_never_released(coin: Coin) -> None:
    private = ("a text of somebody else", TEXTS[0])
    rewrites = coin.rewrite(private * 100, 8.0, Noise.named(200, "coin"))
    assert set(rewrites.texts) == {coin.sentence, TEXTS[0]}
    assert probabilities(coin, 8.0, private)[0].tolist() == [0, 0, 0, 0, 1]


def test_draws_follow_the_law(coin: Coin) -> None:
    """Within five standard errors: a false alarm once in a million."""
    count, shown = 40_000, math.tanh(0.5)
    rewrites = coin.rewrite([TEXTS[2]] * count, 1.0, Noise.named(count, "coin"))
    assert set(rewrites.texts) == {TEXTS[2], coin.sentence}
    share = sum(text == TEXTS[2] for text in rewrites.texts) / count
    assert abs(share - shown) < 5 * math.sqrt(shown * (1 - shown) / count)


def test_a_publication_draws_from_the_same_law(coin: Coin) -> None:
    """tanh(1) = .762 of 2,000, within six standard errors: a false alarm once in 10^8."""
    rewrites = coin.rewrite([TEXTS[1]] * 2000, 2.0, Noise.operating_system(2000))
    share = sum(text == TEXTS[1] for text in rewrites.texts) / 2000
    assert abs(share - math.tanh(1)) < 6 * math.sqrt(0.25 / 2000)


def test_likelihoods_are_those_of_the_law(coin: Coin) -> None:
    texts = [*TEXTS, "not on the list"]
    candidates = np.array([[i, j] for i in range(5) for j in range(5)])
    rewrites = coin.rewrite([texts[i] for i, _ in candidates], 1.5, Noise.named(25, "coin"))
    assert rewrites.units is not None
    law = probabilities(coin, 1.5, tuple(texts))
    (values,) = coin.log_likelihoods(texts, candidates, [rewrites], [1.5])
    np.testing.assert_allclose(np.exp(values), law[candidates, rewrites.units.values[:, None]])


def test_nothing_is_claimed_where_the_text_always_comes_out(coin: Coin) -> None:
    assert coin.guarantee(100.0) is None


def test_it_conforms(coin: Coin) -> None:
    assert [check for check in check_mechanism(coin, 1.0, TEXTS) if check.problem] == []


def test_an_audit_measures_the_budget_and_does_not_refute_the_claim() -> None:
    """5,000 trials: the lower bound exceeds one nat with probability at most .005 (alpha / 2).

    A text that comes out tells its source for sure: 1,250 right guesses prove 5 nats, and 2,310 are expected; fewer
    come by chance once in 10^100.
    """
    design = epsilometer.Design(temperature=0)
    table = epsilometer.audit(list(TEXTS), "coin", [1.0], ["likelihood", "lexical"], trials=5000, design=design)
    for row in table.iter_rows(named=True):
        assert 0.8 < row["loss"] <= 1.0
        assert row["loss_at_delta"] == 0.0
        assert row["worst_output"] > 5.0
        assert row["verdict"] == "not refuted"
    assert 0.8 < table.filter(attack="likelihood")["posterior_loss"].item() <= 1.05


def test_calibration_finds_the_budget_whatever_is_claimed() -> None:
    """The claim's delta grows with the budget; the answer misses the budget with probability at most .01 (alpha)."""
    search = epsilometer.Search(attack="likelihood", low=0.25, high=4.0)
    design = epsilometer.Design(temperature=0)
    row = epsilometer.calibrate(list(TEXTS), "coin", target=1.0, search=search, design=design).row(0, named=True)
    assert row["status"] == "found"
    assert row["low"] <= 1 <= row["high"]


@pytest.mark.parametrize("level", LEVELS)
def test_the_tail_shows_what_the_average_loss_does_not(coin: Coin, level: float) -> None:
    table = epsilometer.exact_loss(list(TEXTS), coin, [level], design=epsilometer.Design(temperature=0))
    row = table.filter(pairs="all").row(0, named=True)
    assert row["average"] == pytest.approx(level)
    assert row["delta_at_4_low"] == pytest.approx(math.tanh(level / 2)) == pytest.approx(row["delta_at_4"])


def test_a_pure_epsilon_up_to_4_has_no_tail() -> None:
    response = RandomizedResponse(resource=TEXTS)
    table = epsilometer.exact_loss(list(TEXTS), response, [3.9, 6.0], design=epsilometer.Design(temperature=0))
    below, above = table.filter(pairs="all")["delta_at_4"].to_list()
    expected = (math.exp(6) - math.exp(4)) / (math.exp(6) + len(TEXTS) - 1)
    assert below == pytest.approx(0, abs=1e-9)
    assert above == pytest.approx(expected, rel=0.05)
