"""Verdicts on paired differences: how often they are wrong when the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.studies.training.results.equivalence import DIFFERENT, EQUIVALENT, UNDECIDED, compare

MARGIN, ALPHA, RUNS = 0.05, 0.1, 2_000


@pytest.mark.parametrize(
    ("truth", "spread", "verdict", "most"),
    [(MARGIN, 0.02, EQUIVALENT, ALPHA / 2), (-MARGIN, 0.05, EQUIVALENT, ALPHA / 2), (0.0, 0.1, DIFFERENT, ALPHA)],
)
def test_a_wrong_verdict_is_as_rare_as_stated(truth: float, spread: float, verdict: str, most: float) -> None:
    """Five seeds; the share of wrong verdicts against `most`, by an interval that errs with probability 1e-6."""
    differences = np.random.default_rng(0).normal(truth, spread, (RUNS, 5))
    wrong = sum(compare(row.tolist(), MARGIN, ALPHA).verdict == verdict for row in differences)
    assert clopper_pearson(wrong, RUNS, 1e-6)[0] < most


def test_each_verdict_can_come_out() -> None:
    seen = compare([0.01, 0.012, 0.008], MARGIN, ALPHA)
    assert (seen.verdict, seen.difference) == (EQUIVALENT, pytest.approx(0.01))
    assert seen.low < 0.01 < seen.high
    assert compare([0.2, 0.21, 0.19], MARGIN, ALPHA).verdict == DIFFERENT
    assert compare([0.2, -0.21, 0.1], MARGIN, ALPHA).verdict == UNDECIDED
    assert compare([0.0], MARGIN, ALPHA) == compare([0.0], 1e9, ALPHA)
    assert compare([0.0], MARGIN, ALPHA).high == math.inf
