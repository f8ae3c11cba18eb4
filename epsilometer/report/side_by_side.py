"""A comparison of two audits: the changes of losses, and tests of whether they exceed chance. Losses are in nats.

A loss has moved if a test of its hits shows a change (`reaudit.drift`). The test is McNemar's exact test if both audits
have the same trials, else Fisher's exact test of two samples. P-values are corrected for the number of rows
(Holm 1979): if two audits do not differ, the probability that any row is reported as moved is at most `LEVEL`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from epsilometer.reaudit.drift import Measured, Row, judge

LEVEL = 0.01  # error probability over all rows together
ROW = list(Row._fields)  # columns that identify an estimate
EXACT_ROW = ["dataset", "mechanism", "epsilon", "pairs"]
_ENDS = ["average_low", "average_high"]
_EXACT = ["compared", "average", *_ENDS, "worst", "relative_epsilon", "delta_at_claim", "delta_at_4", "verdict"]
_COMPARED = ["trials", "candidates", "claim", "verdict", "loss", "point", "upper", "delta_at_4_low"]
_MOVED = {"dataset": pl.String, "mechanism": pl.String, "epsilon": pl.Float64, "attack": pl.String} | {
    "p_value": pl.Float64,
    "moved": pl.String,
}


def moved(before: Mapping[Row, Measured], now: Mapping[Row, Measured]) -> pl.DataFrame:
    """Return the rows that two audits share: `ROW`, p_value (corrected) and moved (a verdict of `drift`).

    Rows with different numbers of candidates are left out. p_value is null if there are too few trials to show a
    change.
    """
    alike = {row for row in before.keys() & now.keys() if _candidates(before[row]) == _candidates(now[row])}
    drifts = judge({row: before[row] for row in alike}, {row: now[row] for row in alike}, LEVEL)
    rows = [drift.row._asdict() | {"p_value": drift.p_value, "moved": drift.verdict} for drift in drifts]
    return pl.DataFrame(rows, schema=_MOVED)


def compare(first: pl.DataFrame, other: pl.DataFrame, tested: pl.DataFrame) -> pl.DataFrame:
    """Return two audits side by side, a row per estimate of either audit; missing values are null.

    Columns of the first audit end in `_1`, columns of the second in `_2`. tested: from `moved`; its columns are added,
    and rows are sorted by p-value. The column `change` is the second plug-in value minus the first (null if either is
    infinite or missing).
    """
    both = _side_by_side(first, other, ROW, _COMPARED)
    change = pl.col("point_2") - pl.col("point_1")
    both = both.with_columns(change=pl.when(change.is_finite()).then(change))
    return both.join(tested, on=ROW, how="left", nulls_equal=True).sort("p_value", *ROW, nulls_last=True)


def compare_exact(first: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the exact losses of two audits side by side, as `compare` does, without a test.

    Column `change`: the second average minus the first; `apart`: True if they differ by more than their numerical
    errors.
    """
    both = _side_by_side(first, other, EXACT_ROW, _EXACT)
    change = pl.col("average_2") - pl.col("average_1")
    return both.with_columns(
        change=pl.when(change.is_finite()).then(change),
        apart=(pl.col("average_low_1") > pl.col("average_high_2"))
        | (pl.col("average_low_2") > pl.col("average_high_1")),
    ).sort(EXACT_ROW)


def _candidates(measured: Measured) -> int:
    return measured.estimate.candidates


def _side_by_side(first: pl.DataFrame, other: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    sides = [
        table.select(*key, *(pl.col(name).alias(f"{name}_{number}") for name in columns))
        for number, table in enumerate((first, other), start=1)
    ]
    return sides[0].join(sides[1], on=key, how="full", nulls_equal=True, coalesce=True)
