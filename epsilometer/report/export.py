"""An audit's estimates for a paper or a spreadsheet, and two audits side by side. Losses are in nats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from tabulate import tabulate

from epsilometer.auditing.claims import overall
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT
from epsilometer.core import tables
from epsilometer.core.errors import UserError, unknown

ROW = ["dataset", "mechanism", "epsilon", "attack"]  # names an estimate
EXACT_ROW = ["dataset", "mechanism", "epsilon", "pairs"]
_ENDS = ["average_low", "average_high"]
_EXACT = ["compared", "average", *_ENDS, "worst", "relative_epsilon", "delta_at_claim", "verdict"]
_COMPARED = ["trials", "candidates", "claim", "verdict", "loss", "point", "upper"]
_MARKUP = {".md": "github", ".tex": "latex_booktabs"}
FORMATS = (".csv", ".json", *_MARKUP)


def read(run: Path) -> pl.DataFrame:
    """The estimates of the audit in a folder: schema `ESTIMATES`, and `overall`."""
    estimates = tables.read(run / "data/estimates.parquet", ESTIMATES)
    return with_overall(estimates, tables.read(run / "data/claims.parquet", CLAIMS), read_exact(run))


def read_exact(run: Path) -> pl.DataFrame:
    """The exact losses of the audit in a folder: schema `EXACT`, without rows where there are none."""
    files = [path for path in sorted((run / "data/exact").glob("*.parquet")) if path.suffixes[-2:-1] != [".curves"]]
    return pl.concat([pl.DataFrame(schema=dict(EXACT)), *(tables.read(path, EXACT) for path in files)])


def with_overall(estimates: pl.DataFrame, claims: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """Estimates with `overall`: the one verdict of the row's claim.

    It is that of all attacks, data sets and exact figures together (`claims.overall`).
    """
    verdicts = overall(estimates, claims, exact).select("mechanism", "epsilon", overall="verdict")
    return estimates.join(verdicts, on=["mechanism", "epsilon"], how="left", nulls_equal=True, maintain_order="left")


def compare_exact(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The exact losses of two audits side by side, as `compare`; they have an error, and no confidence.

    change: the second average less the first; apart: whether they differ by more than their errors.
    """
    both = _side_by_side(one, other, EXACT_ROW, _EXACT)
    change = pl.col("average_2") - pl.col("average_1")
    return both.with_columns(
        change=pl.when(change.is_finite()).then(change),
        apart=(pl.col("average_low_1") > pl.col("average_high_2"))
        | (pl.col("average_low_2") > pl.col("average_high_1")),
    ).sort(EXACT_ROW)


def compare(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Two audits side by side, a row an estimate that either has; what the other lacks is null.

    Columns of the first end in `_1`, of the second in `_2`. change: the second plug-in value less the first (null where
    either is infinite or absent). apart: whether the intervals from loss to upper have no point in common, each at its
    own confidence; a change without that may be chance, and so may one in many rows with it.
    """
    both = _side_by_side(one, other, ROW, _COMPARED)
    change = pl.col("point_2") - pl.col("point_1")
    return both.with_columns(
        change=pl.when(change.is_finite()).then(change),
        apart=(pl.col("loss_1") > pl.col("upper_2")) | (pl.col("loss_2") > pl.col("upper_1")),
    ).sort(ROW)


def _side_by_side(one: pl.DataFrame, other: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    sides = [
        table.select(*key, *(pl.col(name).alias(f"{name}_{number}") for name in columns))
        for number, table in enumerate((one, other), start=1)
    ]
    return sides[0].join(sides[1], on=key, how="full", nulls_equal=True, coalesce=True)


def chosen(table: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """These columns in this order; all of them where none is named. Raises UserError for one that is not there."""
    for name in columns:
        if name not in table.columns:
            raise unknown("column", name, table.columns)
    return table.select(columns) if columns else table


def write(table: pl.DataFrame, path: Path) -> None:
    """Write a table as CSV, JSON, Markdown or LaTeX (booktabs), as the file's suffix says.

    Numbers have all their digits in CSV and JSON, where an infinite one is `inf` and null, and four in Markdown and
    LaTeX. What is missing is empty.
    """
    if path.suffix not in FORMATS:
        raise UserError(f"a file to export to must end in {', '.join(FORMATS)}, got {path.name!r}")
    if path.suffix == ".csv":
        text = table.write_csv()
    elif path.suffix == ".json":
        finite = pl.when(pl.selectors.float().is_finite()).then(pl.selectors.float())
        text = table.with_columns(finite).write_json() + "\n"
    else:
        text = markup(table, path.suffix)
    tables.write_text(text, path)


def markup(table: pl.DataFrame, suffix: str = ".md") -> str:
    """Returns a table as Markdown (`.md`) or LaTeX (`.tex`)."""
    pipe = "\\|" if suffix == ".md" else "|"  # tabulate leaves it as it is, and it would end a cell
    rows = [[_written(value).replace("|", pipe) for value in row] for row in table.iter_rows()]
    right = ["right" if kind.is_numeric() else "left" for kind in table.dtypes]
    return str(tabulate(rows, table.columns, _MARKUP[suffix], colalign=right, disable_numparse=True)) + "\n"


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
