"""Bounds from one-sided, computed and shifted evidence, and the status of a limit that follows from them."""

from __future__ import annotations

import math

import pytest

from epsilometer.auditing.evidence.bounds import bounds, status
from epsilometer.auditing.evidence.evidence import AtLeast, By, Computed, Covers, Evidence, Hits, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.gate_statistics import Errors, fewest_sets, point

LOSS = Scale("worst_pair", options=2)


def of(data, scale: Scale = LOSS, covers: Covers = Covers.THESE) -> Evidence:
    return Evidence("figure", By.ATTACK, scale, data, covers=covers)


@pytest.mark.parametrize("right", [0, 500, 900, 1000])
def test_trials_of_one_case_bound_the_worst_from_below_alone(right: int) -> None:
    low, high = bounds(AtLeast(right, 1000), LOSS, 0.005, 0.005)
    assert low == bounds(Hits(right, 1000), LOSS, 0.005, 0.005)[0]
    assert high == math.inf
    seen = {status(of(AtLeast(right, 1000)), Limit(allowed, LOSS, ""), 0.001, 0.05) for allowed in (0.1, 2.0, 50.0)}
    assert seen <= {Status.BEYOND, Status.OPEN}, "no limit is kept by it"
    assert (Status.BEYOND in seen) == (right >= 900)


def test_a_p_value_is_the_error_of_what_it_refutes() -> None:
    scale, refuted = Scale("claim"), Computed(1.0, math.inf, 1e-4, 100)
    assert bounds(refuted, scale, 2e-4, 0.05) == (1.0, math.inf)
    assert bounds(refuted, scale, 5e-5, 0.05) == (0.0, math.inf)
    limit = Limit(0.0, scale, "")
    assert status(of(refuted, scale), limit, 2e-4, 0.05) is Status.BEYOND
    assert status(of(refuted, scale), limit, 5e-5, 0.05) is Status.OPEN
    holds = of(Computed(0.0, 0.0, 0.0), scale, Covers.EVERYONE)
    assert status(holds, limit, 1e-9, 1e-9) is Status.WITHIN
    assert [point(of(Computed(1.0, math.inf, p), scale)) for p in (0.0, 0.04, 0.06)] == [1, 1, 0]


def test_a_figure_from_minus_1_to_1_is_given_back_in_its_own_unit() -> None:
    """Shares of 0.75 are values of 0.5; bounds, point and limit are in the figure's unit."""
    scale, data = Scale("similarity", lowest=-1.0), Means([0.75] * 400)
    assert (scale.rate(-1), scale.rate(0), scale.rate(1)) == (0, 0.5, 1)
    assert scale.figure(scale.rate(0.3)) == pytest.approx(0.3)
    low, high = bounds(data, scale, 0.005, 0.005)
    assert 0.4 < low < point(of(data, scale)) == 0.5 < high < 0.6
    decided = [status(of(data, scale), Limit(x, scale, "", at_least=True), 0.001, 0.05) for x in (0.2, 0.5, 0.8)]
    assert decided == [Status.NOT_EXCEEDED, Status.OPEN, Status.BEYOND]


def test_the_point_of_means_is_their_mean_to_the_last_digit() -> None:
    """`right` is a whole number, which 3 numbers of 0.4 do not have."""
    assert point(of(Means([0.4, 0.4, 0.4]), Scale("similarity"))) == pytest.approx(0.4)


def test_the_fewest_sets_show_a_limit_kept_and_exceeded() -> None:
    errors = Errors()
    few = fewest_sets(0.9, 1, expected=0.5, spread=0.1, errors=errors)
    more = fewest_sets(0.6, 1, expected=0.5, spread=0.1, errors=errors)
    varied = fewest_sets(0.6, 1, expected=0.5, spread=0.5, errors=errors)
    assert few is not None
    assert more is not None
    assert varied is not None
    assert more < varied
    limit = Limit(0.6, Scale("share"), "")
    for sets, passes in ((varied, True), (varied // 2, False)):
        chance = Means([1.0, 0.0] * (sets // 2) + [0.5] * (sets % 2))
        assert (status(of(chance, Scale("share")), limit, errors.alpha, errors.beta) is Status.NOT_EXCEEDED) == passes
    assert status(of(Means([1.0] * few), Scale("share")), Limit(0.9, Scale("share"), ""), 0.001, 0.05) is Status.BEYOND
    assert fewest_sets(0.5 + 1e-9, 1, expected=0.5, spread=0.5, errors=errors) is None
