"""Bounds stay true when they are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epsilometer.core.rounding import DOWN, NEAREST, UP, beside, written

NUMBERS = st.floats(min_value=1e-12, max_value=1e12)


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("loss", 1.99999, "1.999"),
        ("posterior_loss", 0.123456, "0.1234"),
        ("average_low", 5.49999, "5.499"),
        ("ceiling", 5.24189, "5.241"),
        ("upper", 0.82001, "0.8201"),
        ("tpr_high", 0.5, "0.5"),
        ("p_value", 1.23401e-9, "1.235e-09"),
        ("success_rate", 0.98765, "0.9877"),  # an estimate, rounded to the nearest
        ("epsilon", 0.1, "0.1"),
        ("point", -0.0, "0"),
        ("upper", math.inf, "∞"),
        ("slack", -math.inf, "−∞"),
    ],
)
def test_a_number_is_rounded_the_way_its_column_needs(column: str, value: float, text: str) -> None:
    assert written(column, value) == text


@given(NUMBERS)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_bound_says_more_than_was_proved(value: float) -> None:
    for column in ("loss", "equal_loss", "worst_output", "rs_all_low", "delta_at_4_low", "loss_1"):
        assert value * 0.999 <= float(written(column, value)) <= value
    for column in ("upper", "posterior_upper", "high", "delta_at_4", "upper_2"):
        assert value <= float(written(column, value)) <= value * 1.0011


def test_a_loss_at_its_ceiling_says_at_least() -> None:
    assert written("loss", 5.24189, 5.24189) == "≥ 5.241"
    assert written("loss", 5.2, 5.24189) == "5.2"
    assert written("loss", 0.0, 0.0) == written("lower", 0.0, 0.0) == "not testable"
    assert written("upper", 5.24189, 5.24189) == "5.242"


@settings(max_examples=300, deadline=None, derandomize=True)
@example(1.0, 1e-8, 1, UP)  # a little more than the slack above the limit
@given(
    st.sampled_from([1.0, 0.5, 0.01, 12.0]),
    st.floats(min_value=-0.9, max_value=9.0),
    st.integers(min_value=0, max_value=8),
    st.sampled_from([DOWN, UP, NEAREST]),
)
def test_a_number_beside_its_limit_is_never_rounded_onto_nor_across_it(
    limit: float, off: float, power: int, way: str
) -> None:
    value = limit * (1 + off / 10**power)
    shown = float(beside(value, limit, way).replace(",", ""))
    if abs(value - limit) <= 1e-9:
        assert shown == limit
    elif abs(value - limit) <= 2e-9:
        assert shown == limit or (shown > limit) == (value > limit)
    else:
        assert shown != limit
        assert (shown > limit) == (value > limit)


def test_few_decimals_are_enough_away_from_the_limit() -> None:
    assert [beside(value, 1.0, UP) for value in (0.4567, 1.0, 1.0001, 0.99996, math.inf)] == [
        "0.46", "1.00", "1.01", "0.99996", "∞"
    ]  # fmt: skip
    assert [beside(value, 1.0, DOWN) for value in (1.0001, 1.2345)] == ["1.0001", "1.23"]
