"""All numbers: what stands beside the loss of a row."""

from __future__ import annotations

import math

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.studies.texts.report import numbers
from tests.support.audited import bare, frame, text_of


@pytest.mark.parametrize(
    ("posteriors", "worst", "affirmed", "shown"),
    [
        ((0.5, 0.75), 1.25, (0.1, 0.075), "0.50 to 0.751.25≥ 0.12510.0\xa0%, ≥ 7.5\xa0% (1.0\xa0%)"),
        ((4.0, math.inf), 6.5, (1.0, 0.992), "4.00 to above 5.236.50≥ 0.125100.0\xa0%, ≥ 99.2\xa0% (1.0\xa0%)"),
        ((None, None), None, (None, None), "––not testable–"),
    ],
)
def test_posteriors_the_worst_output_and_affirmed_sources_stand_beside_the_loss(
    posteriors: tuple[float | None, float | None],
    worst: float | None,
    affirmed: tuple[float | None, float | None],
    shown: str,
) -> None:
    table = frame(("queries", "mvc", 1.0, "embedding", 1000, None, NO_CLAIM)).with_columns(
        posterior_loss=pl.lit(posteriors[0], pl.Float64),
        posterior_upper=pl.lit(posteriors[1], pl.Float64),
        worst_output=pl.lit(worst, pl.Float64),
        delta_at_4_low=pl.lit(None if worst is None else 0.125, pl.Float64),
        fpr=pl.lit(0.01),
        tpr=pl.lit(affirmed[0], pl.Float64),
        tpr_low=pl.lit(affirmed[1], pl.Float64),
    )
    results = bare(table)
    text = text_of(numbers.section(results), results)
    assert f"{shown}no claim" in text.replace("\n", "")
