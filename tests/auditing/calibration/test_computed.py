"""The epsilon at which an exact figure meets a target: its interval, its error, and targets that no epsilon meets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.auditing.calibration.computed import Figure, Met, advice, meet
from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE, UNDECIDED


def search(figure: Figure, target: float, low: float = 0.001, high: float = 1000.0, width: float = 1.01) -> Met:
    return meet(figure, target, low, high, width=width, watch=lambda low, high: None)


@given(
    crossing=st.floats(0.01, 100),
    exponent=st.floats(0.2, 6),
    error=st.just(0.0) | st.floats(0, 0.3),
    width=st.floats(1.001, 1.5),
)
def test_the_interval_holds_the_epsilon_and_says_what_the_error_leaves_open(
    crossing: float, exponent: float, error: float, width: float
) -> None:
    """loss = (epsilon / c)^b, known to within a factor e^error: the target 1 is met at c."""

    def figure(epsilon: float) -> tuple[float, float]:
        loss = (epsilon / crossing) ** exponent
        return loss * math.exp(-error), loss * math.exp(error)

    met = search(figure, 1.0, width=width)
    assert met.low <= crossing <= met.high
    assert met.best is not None
    assert met.low <= met.best <= met.high
    open_ = math.exp(2 * error / exponent)  # the ratio of the two ends within which the error decides
    assert met.low <= crossing / math.sqrt(open_) * (1 + 1e-9)
    assert met.high >= crossing * math.sqrt(open_) * (1 - 1e-9)
    assert met.high / met.low <= open_ * width * (1 + 1e-9)
    if not error:
        assert met.status == FOUND
    if open_ > width * (1 + 1e-9):
        assert met.status == UNDECIDED


def test_it_asks_for_few_figures() -> None:
    """A curve that bends: guess loss of randomised response on 20 texts, met at 2.90048."""
    visited = []

    def figure(epsilon: float) -> tuple[float, float]:
        visited.append(epsilon)
        q = 1 / (1 + 19 * math.exp(-epsilon))
        right = q + (1 - q) * 9 / 19
        loss = math.inf if right >= 1 else math.log(right / (1 - right))
        return loss, loss

    met = search(figure, 1.0, low=0.1, high=20.0)
    assert met.status == FOUND
    assert met.low < 2.90048 < met.high
    assert met.best == pytest.approx(2.90048, rel=0.002)
    assert len(visited) == len(set(visited)) <= 12


@pytest.mark.parametrize(
    ("ends", "status", "low", "high"),
    [((2.0, 3.0), OUTSIDE, 0.0, 1.0), ((0.1, 0.5), OUTSIDE, 2.0, math.inf), ((3.0, 2.0), OUTSIDE, 0.0, 1.0)],
)
def test_where_there_is_none(ends: tuple[float, float], status: str, low: float, high: float) -> None:
    met = search(lambda epsilon: (ends[epsilon > 1.5],) * 2, 1.0, low=1.0, high=2.0)
    assert (met.status, met.low, met.high, met.best) == (status, low, high, None)


@given(crossing=st.floats(0.01, 100), exponent=st.floats(0.2, 6), error=st.floats(0, 0.3))
def test_where_the_figure_falls_the_crossing_is_found(crossing: float, exponent: float, error: float) -> None:
    """loss = (c / epsilon)^b: above the target 1 below c, and below it beyond."""
    seen = []

    def figure(epsilon: float) -> tuple[float, float]:
        seen.append(epsilon)
        loss = (crossing / epsilon) ** exponent
        return loss * math.exp(-error), loss * math.exp(error)

    met = search(figure, 1.0)
    assert met.status == FALLING
    assert met.best is not None
    assert met.low <= crossing <= met.high
    assert met.low <= met.best <= met.high
    assert met.high / met.low <= max(1.01, math.exp(2 * error / exponent) * 1.01)
    assert list(met.figures) == pytest.approx(sorted(seen))
    assert seen[:2] == [0.001, 1000.0]  # both ends of the range are tried first


@pytest.mark.parametrize(
    ("ends", "remedy"),
    [
        ((3.0, 2.0), "raise `high` (--high)"),
        ((2.0, 3.0), "lower `low` (--low)"),
        ((0.2, 0.1), "lower `low` (--low)"),
        ((0.1, 0.2), "raise `high` (--high)"),
    ],
)
def test_the_remedy_follows_the_direction_of_the_curve(ends: tuple[float, float], remedy: str) -> None:
    met = search(lambda epsilon: (ends[epsilon > 1.5],) * 2, 1.0, low=1.0, high=2.0)
    assert met.status == OUTSIDE
    assert remedy in advice(met, "the loss", "A", "B")


def test_infinite_and_vanishing_figures_are_halved_between() -> None:
    """0 below 3 and infinite from there on."""
    met = search(lambda epsilon: (0.0, 0.0) if epsilon < 3 else (math.inf, math.inf), 1.0)
    assert met.status == FOUND
    assert met.low < 3 <= met.high


def test_points_that_turn_out_to_lie_outside_of_the_interval_are_left_alone() -> None:
    """The wide bracket at 2.5 and above left it open there, before a smaller epsilon proved to be above the target."""

    def figure(epsilon: float) -> tuple[float, float]:
        if epsilon < 1.2:
            return 0.5, 0.5
        return (0.9, 1.5) if 2.5 <= epsilon < 3.9 else (1 + 0.1 * epsilon,) * 2

    computed: list[float] = []

    def counted(epsilon: float) -> tuple[float, float]:
        assert epsilon not in computed
        computed.append(epsilon)
        return figure(epsilon)

    met = meet(counted, 1.05, 1.0, 4.0, width=1.01, watch=lambda low, high: None)
    assert met.status == FOUND
    assert met.low < 1.2 <= met.high


@pytest.mark.parametrize(
    ("low", "high", "target", "crossing"), [(0.98, 1.03, 1.0, 1 / 1.02), (0.97, 1.02, 10.0, 10 / 0.98)]
)
def test_an_end_of_the_range_is_no_end_of_the_answer_where_the_error_leaves_it_open(
    low: float, high: float, target: float, crossing: float
) -> None:
    """The figure at an end may lie on either side of the target, which is met just beyond."""
    met = search(lambda epsilon: (low * epsilon, high * epsilon), target, 1.0, 10.0, width=1.04)
    assert not met.low <= crossing <= met.high
    assert met.status == UNDECIDED
