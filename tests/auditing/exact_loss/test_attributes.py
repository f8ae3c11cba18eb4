"""Upper bounds on inferring an attribute from a law hold for every adversary, and for the mean over all pairs."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

from epsilometer.auditing.exact_loss.attributes import PAIRS, attribute_losses, drawn_pairs
from epsilometer.auditing.exact_loss.rows import ALPHA
from tests.support.refusals import refused
from tests.support.spelled import Likely, Spelled

LAW = log_softmax(2 * np.random.default_rng(1).normal(size=(5, 5)), axis=1)
TEXTS = [f"{a} {b}" for a in "abcde" for b in "abcde"]
CLASSES = ["old" if text[0] in "ab" else "young" if text[0] in "cd" else None for text in TEXTS]


def truth() -> tuple[float, float]:
    """The loss of the attribute to the best adversary, and that at the mean error over all pairs; by enumeration."""
    laws = {text: np.exp(Spelled(LAW).outputs(text, 1.0)) for text in TEXTS}
    old, young = ([laws[t] for t, c in zip(TEXTS, CLASSES, strict=True) if c == name] for name in ("old", "young"))
    error = np.minimum(np.mean(old, axis=0), np.mean(young, axis=0)).sum() / 2
    mean = np.mean([np.minimum(p, q).sum() / 2 for p, q in product(old, young)])
    return math.log((1 - error) / error), math.log((1 - mean) / mean)


@pytest.mark.parametrize("kind", [Spelled, Likely])
def test_the_upper_end_holds_for_all_pairs_and_so_for_every_adversary(kind: Any) -> None:
    """12 draws of pairs, each of whose ends fails with .005; more failures than allowed have p < 1e-7."""
    attribute, mean = truth()
    assert attribute < mean, "total variation is convex"
    rows = [next(attribute_losses(kind(LAW), TEXTS, CLASSES, [1.0], seed=seed)) for seed in range(12)]
    failures = sum(row["upper"] < mean for row in rows)
    assert failures <= stats.binom.isf(1e-7, len(rows), ALPHA / 2)
    assert all(row["upper"] > attribute for row in rows)
    assert np.median([row["upper"] for row in rows]) < mean + 0.6, "and it is not vacuous"
    assert {(row["classes"], row["pairs"]) for row in rows} == {(2, PAIRS)}


def test_pairs_are_of_two_classes_each_as_likely_as_any_other() -> None:
    """Of three classes of 3, 2 and 1 texts; chi-square tests with a false alarm of 1e-6 each."""
    classes = ["a", "b", "a", None, "c", "b", "a"]
    numbers = np.concatenate([drawn_pairs(classes, seed)[0] for seed in range(30)])
    named = [tuple(sorted((classes[i], classes[j]))) for i, j in numbers.tolist()]  # type: ignore[type-var]
    _, counts = np.unique(named, axis=0, return_counts=True)
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > 1e-6
    of_a = numbers[np.isin(numbers, [0, 2, 6])]
    assert stats.chisquare(np.unique(of_a, return_counts=True)[1]).pvalue > 1e-6


def test_a_label_of_one_class_is_no_attribute() -> None:
    with refused("EPS-A076", "2", "1"):
        drawn_pairs(["a", None, "a"], 0)
