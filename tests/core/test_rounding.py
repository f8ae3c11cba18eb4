"""Bounds stay true when they are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.core.rounding import written

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
        ("success_rate", 0.98765, "0.9877"),  # an estimate: to the nearest
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
    assert written("loss", 0.0, 0.0) == "0"  # too few trials to prove anything
    assert written("upper", 5.24189, 5.24189) == "5.242"
