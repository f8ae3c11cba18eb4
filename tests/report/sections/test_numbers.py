"""All numbers: what stands beside the loss of a row."""

from __future__ import annotations

import math

import polars as pl
import pytest

from epsilometer.auditing.claims import NO_CLAIM
from epsilometer.report.sections import numbers
from tests.support.audited import bare, frame, text_of


@pytest.mark.parametrize(
    ("posteriors", "worst", "shown"),
    [
        ((0.5, 0.75), 1.25, "0.50 to 0.751.25"),
        ((4.0, math.inf), 6.5, "4.00 to above 5.246.50"),
        ((None, None), None, "––"),
    ],
)
def test_posteriors_and_the_worst_output_stand_beside_the_loss(
    posteriors: tuple[float | None, float | None], worst: float | None, shown: str
) -> None:
    table = frame(("queries", "mvc", 1.0, "embedding", 1000, None, NO_CLAIM)).with_columns(
        posterior_loss=pl.lit(posteriors[0], pl.Float64),
        posterior_upper=pl.lit(posteriors[1], pl.Float64),
        worst_output=pl.lit(worst, pl.Float64),
    )
    results = bare(table)
    text = text_of(numbers.section(results), results)
    assert f"{shown}no claim" in text.replace("\n", "")
