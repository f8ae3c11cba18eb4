"""How numbers and names are written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.core.rounding import DOWN
from epsilometer.report.agreement import interval
from epsilometer.report.wording import (
    at_budgets,
    bounded,
    budget,
    inflected,
    listed,
    loss_between,
    loss_interval,
    mean_interval,
    nats,
    of_100,
    per_100,
    proved,
)


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (2500.0, "2,500"), (1e6, "1,000,000"), (10.0, "10"), (1e-5, "1e-05")]
)
def test_budgets_are_written_plainly(value: float, text: str) -> None:
    assert budget(value) == text


def test_a_slack_of_nothing_has_no_sign() -> None:
    assert nats(-1e-12) == "0.00"
    assert nats(-0.25) == "-0.25"


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [(1.999, "1.99", "2.00"), (0.29, "0.29", "0.29"), (-1e-12, "0.00", "0.00"), (877.701, "877.70", "877.71")],
)
def test_a_bound_never_says_more_than_was_proved(value: float, lower: str, upper: str) -> None:
    assert (proved(value), bounded(value)) == (lower, upper)
    assert proved(math.inf, 5.239) == bounded(math.inf, 5.239) == "above 5.23"


def test_a_loss_that_no_guesses_could_have_proved_is_not_testable() -> None:
    nothing = {"loss": 0.0, "upper": math.inf, "ceiling": 0.0}
    assert loss_between(nothing) == loss_interval(nothing) == "not testable"
    some = {"loss": 0.0, "upper": 1.0, "ceiling": 2.0}
    assert loss_between(some) == loss_interval(some) == "0.00 to 1.00"


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.7311, "73.2 of 100"),
        (0.95, "95 of 100"),
        (1 / 1500, "0.067 of 100"),
        (0.5, "50 of 100"),
        (1.0, "100 of 100"),
        (0.001, "0.1 of 100"),
    ],
)
def test_a_chance_is_of_100_guesses_and_an_upper_bound_is_never_rounded_down(chance: float, words: str) -> None:
    assert of_100(chance) == words
    assert per_100(chance, DOWN) <= 100 * chance + 1e-9 <= per_100(chance) + 2e-9


def test_lists_are_cut_and_budgets_gathered() -> None:
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([f"m{i}" for i in range(9)]) == "m0, m1, m2, m3, m4 and 4 more"
    audited = [("mvc", 1.0), ("mvc", 2500.0), ("tem", 5.0), ("tem", 8.0), ("one", 1.0)]
    cells = [("tem", 8.0), ("mvc", 2500.0), ("mvc", 1.0), ("one", 1.0)]
    assert at_budgets(cells, audited) == "mvc at every ε, one at ε = 1 and tem at ε = 8"


@pytest.mark.parametrize(("number", "word"), [(1, "nat"), (1.0, "nat"), (0, "nats"), (1.5, "nats"), (2, "nats")])
def test_a_word_goes_with_its_number(number: float, word: str) -> None:
    assert inflected(number, "nat", "nats") == word


def test_an_interval_of_a_mean_covers_it_as_often_as_it_says() -> None:
    """Of 20,000 means of five normal runs 1 % are missed, to .3 %: over four standard deviations, 1e-4 false alarms."""
    runs = np.random.default_rng(3).normal(0.8, 0.05, (20_000, 5))
    ends = [interval(mean_interval(values, ".9f")) for values in runs]
    missed = np.mean([not low <= 0.8 <= high for low, high in ends])
    assert missed == pytest.approx(0.01, abs=0.003)
