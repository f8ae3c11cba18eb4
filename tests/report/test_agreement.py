"""Verdicts on claims: every rule can give both verdicts, and is undecided if the evidence does not decide."""

from __future__ import annotations

import math

import pytest

from epsilometer.report.agreement import AGREES, DISAGREES, NOT_TESTABLE, UNDECIDED, agreement, interval
from tests.support.refusals import refused


@pytest.mark.parametrize(
    ("cell", "ends"),
    [
        ("0.032 (0.012 to 0.074)", (0.012, 0.074)),
        ("58,092 to 58,118", (58_092, 58_118)),
        ("-0.014 (-0.032 to 0.004)", (-0.032, 0.004)),
        ("at least 2.78", (2.78, math.inf)),
        ("0.05 ± 0.02", (pytest.approx(0.03), pytest.approx(0.07))),
        ("100%", (100, 100)),
        ("1e+07", (1e7, 1e7)),
    ],
)
def test_a_cell_is_an_interval(cell: str, ends: tuple[float, float]) -> None:
    assert interval(cell) == ends


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (("0.2 to 0.3", "ABOVE", "0.1"), AGREES),
        (("0.2 to 0.3", "ABOVE", "0.25 to 0.4"), UNDECIDED),
        (("0.2 to 0.3", "ABOVE", "0.3 to 0.4"), DISAGREES),
        (("0.2 to 0.3", "BELOW", "0.4"), AGREES),
        (("0.2 to 0.3", "BELOW", "0.1"), DISAGREES),
        (("0.26 to 0.3", "NEAR", "0.35", "0.1"), AGREES),
        (("0.2 to 0.3", "NEAR", "0.35", "0.1"), UNDECIDED),
        (("0.1 to 0.9", "NEAR", "0.35", "0.1"), NOT_TESTABLE),
        (("0.1 to 0.2", "NEAR", "0.35", "0.1"), DISAGREES),
        (("0.2 to 0.4", "NEAR", "0.35"), NOT_TESTABLE),
        (("0.2 to 0.3", "NEAR", "0.35"), DISAGREES),
        (("0.943 ± 0.003", "NEAR", ".947", ".01"), AGREES),
        (("falls with noise", "IS", "falls with noise"), AGREES),
        (("falls with noise", "IS NOT", "falls with noise"), DISAGREES),
        (("not monotone", "IS NOT", "falls with noise"), AGREES),
        (("no message", "IS NOT", "falls with noise"), UNDECIDED),
        (("undecided", "IS", "different"), UNDECIDED),
        (("not testable", "IS", "falls with noise"), NOT_TESTABLE),
        (("not testable", "NEAR", "0.31", "0.05"), NOT_TESTABLE),
        (("not testable", "ABOVE", "0.31"), NOT_TESTABLE),
        (("0.0021", "NO EFFECT AT", "0.01"), DISAGREES),
        (("0.01", "NO EFFECT AT", "0.01"), DISAGREES),
        (("0.5", "NO EFFECT AT", "0.01"), UNDECIDED),
    ],
)
def test_a_rule_could_have_come_out_otherwise(claim: tuple[str, ...], verdict: str) -> None:
    assert agreement(*claim) == verdict


@pytest.mark.parametrize(
    ("claim", "off", "verdict"),
    [
        (("55.60", "ABOVE", "52.00"), 8.2, UNDECIDED),
        (("62.00", "ABOVE", "52.00"), 8.2, AGREES),
        (("42.00", "ABOVE", "52.00"), 8.2, DISAGREES),
        (("51.60", "NEAR", "50", "10"), 5.8, AGREES),
        (("51.60", "NEAR", "50", "5"), 5.8, NOT_TESTABLE),
        (("75.0", "NEAR", "50", "5"), 5.8, DISAGREES),
        (("0.15 (0.12 to 0.18)", "ABOVE", "0.1"), 1, AGREES),  # an interval from the table is used unchanged
    ],
)
def test_a_number_may_be_off_by_chance(claim: tuple[str, ...], off: float, verdict: str) -> None:
    assert agreement(*claim, off=off) == verdict


def test_a_bare_number_decides_nothing() -> None:
    """Unless it is said to be exact: otherwise any two numbers differ."""
    with refused("EPS-R011"):
        agreement("55.60", "ABOVE", "52.00")
    assert agreement("55.60", "ABOVE", "52.00", off=0) == AGREES


def test_a_share_of_few_texts_has_an_interval() -> None:
    """None of n: the upper end is where none of n comes out in half of alpha."""
    assert interval("0", 18) == (0, pytest.approx(1 - 0.005 ** (1 / 18)))
    low, high = interval("0.5", 40)
    assert (low, high) == (pytest.approx(1 - high), pytest.approx(0.7054, abs=1e-4))
    assert interval("0.5 (0.4 to 0.6)", 40) == (0.4, 0.6), "one that a table gives stays"
    with refused("EPS-R014", "40"):
        interval("1.5", 40)


@pytest.mark.parametrize(
    ("claim", "of", "other_of", "verdict"),
    [
        (("0.000 (0.000 to 0.255)", "NEAR", "0.273", "0.05"), 18, 1312, NOT_TESTABLE),
        (("0.4", "NEAR", "0.273", "0.05"), 18, 1312, NOT_TESTABLE),  # with so few cases, no result could have agreed
        (("0.9", "NEAR", "0.273", "0.05"), 18, 1312, DISAGREES),  # but even so few can exclude the printed value
        (("0.021 (0.005 to 0.062)", "NEAR", "0.166", "0.05"), 193, 1312, DISAGREES),
        (("0.1", "BELOW", "0.999"), 32, None, AGREES),  # although no possible share of so few cases disagrees
        (("0.5", "BELOW", "2"), 32, None, NOT_TESTABLE),  # every possible share agrees
        (("0.5", "ABOVE", "1"), 32, None, NOT_TESTABLE),  # no possible share agrees
        (("0.9", "NEAR", "0.273", "0.1"), 10_000, 1312, DISAGREES),
        (("0.25", "NEAR", "0.273", "0.1"), 10_000, 1312, AGREES),
        (("0.3", "NEAR", "0.273", "0.1"), 400, 1312, UNDECIDED),
        (("0.122", "NEAR", "0.187", "0.1"), 60, 60, NOT_TESTABLE),  # two wide intervals, one within the other
        (("0.2", "ABOVE", "0.2627"), 40, 118, UNDECIDED),
        (("0.6", "ABOVE", "0.2627"), 40, 118, AGREES),
        (("0.1", "ABOVE", "0.5"), 40, 118, DISAGREES),
        (("0.000", "ABOVE", "0.006"), 4, 4, NOT_TESTABLE),
        (("0.25", "BELOW", "0.05"), 4, None, NOT_TESTABLE),
        (("0.991", "BELOW", "0.05"), 4, None, DISAGREES),
        (("0.807", "BELOW", "0.5"), 32, None, DISAGREES),
    ],
)
def test_what_few_texts_could_not_have_shown_is_no_finding(
    claim: tuple[str, ...], of: int, other_of: int | None, verdict: str
) -> None:
    """Where neither verdict is given and one of them could not be, nothing was tested. Both directions alike."""
    assert agreement(*claim, of=of, other_of=other_of) == verdict
