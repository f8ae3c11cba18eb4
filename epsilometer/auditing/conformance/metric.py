"""The rules of a metric of closeness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.conformance.rules import TEXTS, Check, Rule, checked, lacks


class Measures(Protocol):
    """A metric, as `epsilometer.auditing.worth.similarity` defines it."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return [n] for n pairs."""
        ...


def check_metric(metric: Measures) -> list[Check]:
    """Return the checks of a metric of closeness."""
    return checked(_metric_rules(metric))


def _metric_rules(metric: Measures) -> Iterator[Rule]:
    pairs = [*combinations(TEXTS, 2), *((text, text) for text in TEXTS)]
    originals, rewrites = [a for a, _ in pairs], [b for _, b in pairs]

    def interface() -> str | None:
        if problem := lacks(metric, "measure", 2):
            return problem
        values = metric.measure(originals, rewrites)
        if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.shape != (len(pairs),):
            return "measure must return an array of one floating-point number a pair"
        return None

    def deterministic() -> str | None:
        if np.array_equal(metric.measure(originals, rewrites), metric.measure(originals, rewrites), equal_nan=True):
            return None
        return "two calls differ; a metric draws nothing"

    def alone() -> str | None:
        whole = metric.measure(originals, rewrites)
        single = np.concatenate([metric.measure([a], [b]) for a, b in pairs])
        if np.allclose(whole, single, rtol=1e-4, atol=1e-4, equal_nan=True):
            return None
        return "a pair's number depends on the other pairs in the batch"

    def numbers() -> str | None:
        values = metric.measure(originals, rewrites)
        if np.isinf(values).any():
            return "it is infinite for some pair; NaN stands for a pair that has no number"
        if np.isnan(values).any():
            return "it is NaN for a pair of ordinary sentences; NaN stands for a pair that has no number"
        return None

    def empty() -> str | None:
        left, right = ["", "", TEXTS[0]], ["", TEXTS[0], ""]
        if np.isinf(values := metric.measure(left, right)).any() or values.shape != (3,):
            return "texts without a word must have a number each, or NaN where there is none"
        return None

    yield "measure is there, and gives a number a pair", interface
    yield "the same texts give the same numbers", deterministic
    yield "a number depends on its own pair alone", alone
    yield "ordinary sentences have finite numbers", numbers
    yield "texts without a word are no mistake", empty
