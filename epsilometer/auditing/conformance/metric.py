"""The rules that a metric of similarity must follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.conformance.rules import TEXTS, Check, Rule, checked, lacks


class Measures(Protocol):
    """A metric of similarity (`epsilometer.auditing.worth.similarity`)."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return an array [n]: a number for each of n pairs."""
        ...


def check_metric(metric: Measures) -> list[Check]:
    """Return the checks of a metric of similarity."""
    return checked(_metric_rules(metric))


def _metric_rules(metric: Measures) -> Iterator[Rule]:
    pairs = [*combinations(TEXTS, 2), *((text, text) for text in TEXTS)]
    originals, rewrites = [a for a, _ in pairs], [b for _, b in pairs]

    def interface() -> str | None:
        if problem := lacks(metric, "measure", 2):
            return problem
        values = metric.measure(originals, rewrites)
        if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.shape != (len(pairs),):
            return "measure must return an array of floating-point numbers, one per pair"
        return None

    def deterministic() -> str | None:
        if np.array_equal(metric.measure(originals, rewrites), metric.measure(originals, rewrites), equal_nan=True):
            return None
        return "two calls with the same texts differ; use no random numbers"

    def alone() -> str | None:
        whole = metric.measure(originals, rewrites)
        single = np.concatenate([metric.measure([a], [b]) for a, b in pairs])
        if np.allclose(whole, single, rtol=1e-4, atol=1e-4, equal_nan=True):
            return None
        return "a pair's number depends on other pairs of the batch; compute it from that pair alone"

    def numbers() -> str | None:
        values = metric.measure(originals, rewrites)
        if np.isinf(values).any():
            return "the number of a pair is infinite; return NaN for a pair without a number"
        if np.isnan(values).any():
            return "the number of a pair of ordinary sentences is NaN; return NaN only for a pair without a number"
        return None

    def empty() -> str | None:
        left, right = ["", "", TEXTS[0]], ["", TEXTS[0], ""]
        if np.isinf(values := metric.measure(left, right)).any() or values.shape != (3,):
            return "texts without a word get an infinite number or none; return a finite number or NaN for each pair"
        return None

    yield "measure exists and returns a number per pair", interface
    yield "equal texts give equal numbers", deterministic
    yield "each number depends on its own pair alone", alone
    yield "ordinary sentences have finite numbers", numbers
    yield "texts without a word are accepted", empty
