"""The joint loss of two rewrites of one person, enumerated: when it is at most the sum of their losses."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

EPSILONS = (0.1, 1.0, 4.0)  # randomised response tells one pair of texts apart by each


def law(epsilon: float) -> np.ndarray:
    """The probabilities of both outputs of randomised response, for each of two texts: [2, 2]."""
    right = 1 / (1 + math.exp(-epsilon))
    return np.array([[right, 1 - right], [1 - right, right]])


def overlap(*laws: np.ndarray) -> float:
    """1 - TV of the joint outputs under the first and under the second texts."""
    first, second = (np.array([math.prod(row) for row in product(*(of[text] for of in laws))]) for text in (0, 1))
    return float(np.minimum(first, second).sum())


def loss(mean_overlap: float) -> float:
    return math.log((2 - mean_overlap) / mean_overlap)


@pytest.mark.parametrize("weights", [(1, 1, 1), (8, 1, 1), (1, 0, 1), (0, 0, 1)])
def test_independent_pairs_lose_at_most_the_sum(weights: tuple[int, ...]) -> None:
    share = np.array(weights) / sum(weights)
    single = float(share @ [overlap(law(e)) for e in EPSILONS])
    both = np.array([[overlap(law(a), law(b)) for b in EPSILONS] for a in EPSILONS])
    assert loss(float(share @ both @ share)) <= 2 * loss(single) + 1e-12


def test_two_rewrites_of_one_text_lose_at_most_the_sum() -> None:
    single = np.mean([overlap(law(e)) for e in EPSILONS])
    both = np.mean([overlap(law(e), law(e)) for e in EPSILONS])
    assert loss(float(both)) <= 2 * loss(float(single)) + 1e-12


def test_pairs_that_compensate_each_other_lose_more_than_the_sum() -> None:
    """The assumption is needed: a pair that is easy to tell apart always comes with one that is hard."""
    single = (overlap(law(0.1)) + overlap(law(12.0))) / 2
    both = overlap(law(0.1), law(12.0))
    assert loss(both) > 2 * loss(single) + 1
