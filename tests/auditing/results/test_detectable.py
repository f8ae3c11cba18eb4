"""The stated difference is detected with the stated probability, at the level that Holm's method leaves a test."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.auditing.results.comparison import compare_strongest
from epsilometer.auditing.results.detectable import POWER, least_of_strongest

N, RUNS = 300, 450


def played(rates: list[float], rng: np.random.Generator, *, alike: float) -> dict[str, np.ndarray]:
    """Right guesses of one attack per rate. Attacks share the trial's luck in this share of the trials."""
    own, common = rng.random((len(rates), N)), rng.random(N)
    luck = np.where(rng.random(N) < alike, common, own)
    return {str(number): row < rate for number, (row, rate) in enumerate(zip(luck, rates, strict=True))}


@pytest.mark.parametrize(
    ("rates", "tests", "alike"), [([0.4], 1, 0.0), ([0.4, 0.38, 0.25], 12, 0.8), ([0.4, 0.4, 0.4], 1, 0.0)]
)
def test_the_difference_is_detected_with_the_stated_probability(rates: list[float], tests: int, alike: float) -> None:
    """A share below .85 of 450 runs detects it with probability 3e-4 at most. Fewer than half detect half of it.

    The difference is that of 9 experiments in which both mechanisms leak equally, so its own error is in the share.
    """
    rng, level = np.random.default_rng(0), 0.01 / tests
    shares: dict[float, list[bool]] = {1.0: [], 0.5: []}
    for _ in range(9):
        alike_both = [played(rates, rng, alike=alike) for _ in range(2)]
        least = least_of_strongest(alike_both[0], alike_both[1], level)
        assert 0 < least < 0.5
        for part, detected in shares.items():
            more = [rates[0] + part * least, *rates[1:]]
            for _ in range(RUNS // 9):
                first, second = (played(each, rng, alike=alike) for each in (rates, more))
                compared = compare_strongest(first, second)
                detected.append(compared.p_value <= level and compared.first_only < compared.second_only)
    assert np.mean(shares[1.0]) >= POWER - 0.05
    assert np.mean(shares[0.5]) < 0.5


def test_it_holds_in_both_directions_and_grows_with_corrections() -> None:
    rng = np.random.default_rng(1)
    first, second = played([0.4, 0.1], rng, alike=0.5), played([0.5], rng, alike=0.5)
    least = least_of_strongest(first, second, 0.01)
    assert least == least_of_strongest(second, first, 0.01)
    assert least < least_of_strongest(first, second, 0.001)
    assert least < least_of_strongest(first, second, 0.01, power=0.99)


def test_too_few_trials_detect_nothing() -> None:
    right = {"lexical": np.array([True, False, True])}
    assert least_of_strongest(right, right, 0.01) == 1.0
