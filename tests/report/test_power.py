"""The probability of a disagreement under an alternative, and which decisions a coarse test cannot make."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from epsilometer.report import agreement, archive
from epsilometer.report.archive import Grid, Run
from epsilometer.report.cited import Figures
from epsilometer.report.claims import Rule
from epsilometer.report.power import power, power_of_share

SMALL, LARGE = "mine/losses; tem, 5; loss", "mine/losses; tem, 11; loss"
PREMISE = {"cell": LARGE, "relation": "ABOVE", "other": "1"}


@pytest.mark.parametrize(
    ("ends", "rule", "other", "against", "expected"),
    [
        ((0.4, 0.6), "ABOVE", (0.5, 0.5), 0.1, 0.5),  # half of the intervals end above the other value
        ((0.4, 0.6), "BELOW", (0.3, 0.7), 0.3, 0.5),
        ((0.4, 0.6), "NEAR", (0.2, 0.3), 0.1, 0.5),
        ((0.4, 0.6), "ABOVE", (0.5, 0.5), 0.2, 0.995),  # 2.5758 deviations more
        ((0.0, 0.1), "ABOVE", (0.5, 0.5), 0.1, 0.5),  # it may be equally wide below 0
        ((5.0, math.inf), "ABOVE", (0.0, 0.1), 1, 0.0),  # nothing is known of its width
        ((1.0, 1.0), "ABOVE", (0.5, 0.5), 0.1, 1.0),
    ],
)
def test_the_power_of_intervals(
    ends: tuple[float, float], rule: str, other: tuple[float, float], against: float, expected: float
) -> None:
    assert power(ends, rule, other, against) == pytest.approx(expected, abs=1e-4)


def test_of_two_losses_the_narrower_interval_counts() -> None:
    """A loss of seven nats is known to within three; under the alternative it would be small, and well known."""
    assert power((7.0, 13.0), "ABOVE", (0.1, 0.2), 1) < 0.5
    assert power((7.0, 13.0), "ABOVE", (0.1, 0.2), 1, losses=True) > 0.99
    assert power((7.0, math.inf), "ABOVE", (0.1, 0.2), 1, losses=True) > 0.99


def test_a_claim_that_losses_are_near_has_the_power_of_its_own_interval() -> None:
    assert power((0.4, 0.6), "NEAR", (0.2, 0.3), 0.1, losses=True) == pytest.approx(0.5, abs=1e-4)


def test_the_power_of_a_share_is_binomial() -> None:
    value = power_of_share(20, lambda hits: hits <= 3, (0.1, 0.05))
    assert value == pytest.approx(binom.cdf(3, 20, 0.05))
    assert power_of_share(20, lambda hits: hits <= 3, (-1.0,)) == 1


@pytest.mark.parametrize(
    ("claim", "against", "of", "expected"),
    [
        (("0.26 to 0.36", "ABOVE", "0.03 to 0.10", None), 1, None, True),
        (("1.02 to 2.57", "ABOVE", "0.00 to 0.92", None), 1, None, False),  # for 100 trials
        (("0.021 (0.005 to 0.062)", "NEAR", "0.14 to 0.19", "0.05"), 0.1, 193, True),
        (("0.1", "NEAR", "0.14 to 0.19", "0.05"), 0.1, 12, False),
        (("50", "ABOVE", "48", None), 10, None, True),
        (("0.5", "ABOVE", "0.3", None), 0.1, 2000, True),
        (("0.5", "ABOVE", "0.3", None), 0.1, 50, False),
    ],
)
def test_a_fine_test_decides(
    claim: tuple[str, str, str, str | None], against: float, of: int | None, expected: bool
) -> None:
    cell, rule, other, by = claim
    assert agreement.decided(cell, rule, other, by, against=against, of=of, off=4 if "." not in cell else 0) is expected


@pytest.mark.parametrize(
    ("cell", "relation", "other", "more", "verdict"),
    [
        (LARGE, "ABOVE", SMALL, {"against": 1}, "agrees"),
        (SMALL, "ABOVE", LARGE, {"against": 1}, "disagrees"),
        (LARGE, "ABOVE", SMALL, {"against": 0.05}, "not testable here"),
        (SMALL, "ABOVE", LARGE, {"against": 0.05}, "not testable here"),
        (SMALL, "ABOVE", "0.15", {"against": 0.01}, "not testable here"),
        (SMALL, "NEAR", "0.15", {"by": "0.1", "against": 0.2, "premise": PREMISE}, "agrees"),
        (SMALL, "NEAR", "0.15", {"by": "0.1", "against": 0.05}, "not testable here"),
    ],
)
def test_too_coarse_a_test_decides_neither_way(
    tmp_path: Path, cell: str, relation: str, other: str, more: dict[str, Any], verdict: str
) -> None:
    rows = [["tem", "5", "0.1 to 0.2"], ["tem", "11", "1.1 to 1.2"]]
    archive.write(
        Run("mine", tables=[Grid("Losses", ["mechanism", "epsilon", "loss"], rows)]), tmp_path / "results/mine"
    )
    rule = Rule.model_validate({"cell": cell, "relation": relation, "other": other, **more})
    assert rule.verdict(Figures(tmp_path)) == verdict
