"""Both budgets of mechanisms whose losses formulas give."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LAW
from epsilometer.auditing.text_audit import embed
from epsilometer.core.mechanism import FunctionMechanism
from epsilometer.mechanisms.controls.coin import Coin
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.studies.leaderboard.budgets import ALLOWED, Budget, Lost, budgets, curve
from epsilometer.studies.leaderboard.tables import AVERAGE, TAIL

TEXTS = [f"play {song} by {who}" for song in ("rain", "snow", "wind") for who in ("Ann", "Bob", "Cy")]
PAIRS = np.array([(0, 1), (2, 5), (3, 8), (4, 7)])
ENDS = (0.001, 20.0)


def of(mechanism, target: float, ends: tuple[float, float] = ENDS) -> list[Budget]:
    losses = curve(mechanism, TEXTS, PAIRS, embed(TEXTS), stream=[0])
    return budgets(losses, target, ends)


@pytest.mark.parametrize("target", [0.5, 1.0, 4.0])
def test_the_coins_budgets_are_those_of_its_formula(target: float) -> None:
    """Its average loss is its budget, and its delta at 4 nats tanh(l / 2)."""
    first, second = of(Coin(resource=tuple(TEXTS)), target)
    assert (first.kind, second.kind) == (AVERAGE, TAIL)
    assert first.epsilon == pytest.approx(target, rel=0.005)
    assert first.lost.average[0] == pytest.approx(target, rel=0.005)
    assert first.lost.delta[1] == pytest.approx(math.tanh(first.epsilon / 2))
    assert second.epsilon == pytest.approx(2 * math.atanh(ALLOWED), rel=0.006)
    assert second.lost.delta[1] <= ALLOWED


def test_where_the_tail_binds_the_second_budget_is_the_same_at_every_loss() -> None:
    """A cell names the noise of its rewrites by the budget and not by the loss, so the whole row is the same."""
    seconds = [of(Coin(resource=tuple(TEXTS)), target)[1] for target in (0.5, 1.0, 2.0, 4.0)]
    assert len({second.epsilon for second in seconds}) == 1
    assert all(second == seconds[0] for second in seconds)


@pytest.mark.parametrize("target", [0.5, 1.0])
def test_a_tail_that_falls_again_is_sought_up_to_the_first_budget(target: float) -> None:
    """Delta is above .01 from epsilon 2 to 6 alone: the second budget lies below the first."""
    first, second = budgets(Bulge(), target, (0.1, 30.0))
    assert first.lost.delta[1] > ALLOWED
    assert second.epsilon == pytest.approx(2.0, rel=0.02)
    assert second.epsilon < first.epsilon


def test_with_pure_epsilon_up_to_four_both_budgets_are_one() -> None:
    mechanism = RandomizedResponse(resource=tuple(TEXTS))
    first, second = of(mechanism, 1.0)
    others = len(TEXTS) - 2
    chances = (math.exp(first.epsilon), 1.0)
    error = (2 * chances[1] + others) / (sum(chances) + others) / 2  # the error of the best adversary
    assert first.lost.average[0] == pytest.approx(1.0, abs=0.01)
    assert math.log((1 - error) / error) == pytest.approx(1.0, abs=0.01)
    assert first.lost.pure == pytest.approx(first.epsilon)
    assert second.epsilon == first.epsilon
    assert second.lost.delta[1] == pytest.approx(0.0, abs=1e-9)


def test_a_mechanism_that_loses_more_at_every_budget_has_none_and_says_why() -> None:
    both = of(Coin(resource=tuple(TEXTS)), 0.5, (2.0, 9.0))
    assert [(budget.kind, budget.epsilon) for budget in both] == [(AVERAGE, None), (TAIL, None)]
    assert all("even at epsilon 2 it loses 2 nats" in budget.reason for budget in both)


def test_a_mechanism_that_loses_less_at_every_budget_has_the_largest_and_says_so() -> None:
    first, _ = of(Coin(resource=tuple(TEXTS)), 4.0, (0.5, 2.0))
    assert first.epsilon == 2.0
    assert "less than 4 nats" in first.reason


def test_without_a_law_attacks_give_the_loss() -> None:
    """A text is shown with probability tanh(l / 2): attacks must find about the loss of the coin, and say that it is
    theirs. 40 trials: three standard errors of the success rate .73 are .21, a loss from 0.1 to 2.6 nats.
    """

    def shown(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text if rng.random() < math.tanh(epsilon / 2) else "withheld"

    losses, again = (curve(FunctionMechanism(shown), TEXTS, PAIRS, embed(TEXTS), stream=[0]) for _ in range(2))
    assert losses.by == BY_ATTACKS
    assert 0.1 < losses.at(1.0).average[0] < 2.6
    assert losses.at(1.0) == again.at(1.0)
    assert curve(Coin(resource=tuple(TEXTS)), TEXTS, PAIRS, embed(TEXTS), stream=[0]).by == BY_LAW


@dataclass(frozen=True)
class Bulge:
    """A loss of a fifth of epsilon; delta at 4 nats is .02 from epsilon 2 to 6, and .005 elsewhere."""

    by: str = BY_LAW
    width: float = 1.01

    def at(self, epsilon: float) -> Lost:
        delta = 0.02 if 2 <= epsilon <= 6 else 0.005
        return Lost((epsilon / 5, epsilon / 5), (delta, delta))


@dataclass(frozen=True)
class Hump:
    """A loss of 3 nats about epsilon 1.5, and again from epsilon 30 on; delta at 4 nats rises with epsilon."""

    by: str = BY_LAW
    width: float = 1.01

    def at(self, epsilon: float) -> Lost:
        average = 3 * math.exp(-((math.log(epsilon / 1.5) / 0.5) ** 2)) + 0.08 * epsilon
        return Lost((average, average), (0.0045 * epsilon, 0.0045 * epsilon))


def test_no_budget_within_the_tail_is_stated_where_more_than_the_loss_is_lost_there() -> None:
    """Delta is .01 at epsilon 2.2, where 1.8 nats are lost."""
    first, second = budgets(Hump(), 1.0, (0.1, 30.0))
    assert first.lost.average[0] == pytest.approx(1.0, rel=0.01)
    assert second.epsilon is None
    assert "it loses 1.8" in second.reason


@dataclass(frozen=True)
class Jump:
    """A loss that jumps from .5 to 1.2 nats at an epsilon, without a tail."""

    step: float = 3.0
    by: str = BY_LAW
    width: float = 1.01

    def at(self, epsilon: float) -> Lost:
        average = 0.5 if epsilon < self.step else 1.2
        return Lost((average, average), (0.0, 0.0))


def test_where_the_loss_jumps_past_the_target_the_second_budget_lies_below_it() -> None:
    for budget in budgets(Jump(), 1.0, (0.1, 30.0)):
        assert "jumps from 0.5 to 1.2 nats" in budget.reason
        assert budget.lost.average[0] == (1.2 if budget.kind == AVERAGE else 0.5)
        assert budget.epsilon == pytest.approx(3, rel=0.02)


@pytest.mark.parametrize("step", [2.003, 3.0, 4.44, 5.02])
def test_a_jump_is_seen_from_either_side(step: float) -> None:
    assert all("jumps from 0.5 to 1.2 nats" in budget.reason for budget in budgets(Jump(step), 1.0, (0.1, 30.0)))
