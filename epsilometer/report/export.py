"""An audit's estimates for a paper or a spreadsheet, and two audits side by side. Losses are in nats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from tabulate import tabulate

from epsilometer.auditing.claims import overall
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES
from epsilometer.core import tables
from epsilometer.core.errors import UserError, unknown

ROW = ["dataset", "mechanism", "epsilon", "attack"]  # names an estimate
_COMPARED = ["trials", "candidates", "claim", "verdict", "loss", "point", "upper"]
_MARKUP = {".md": "github", ".tex": "latex_booktabs"}
FORMATS = (".csv", ".json", *_MARKUP)


def read(run: Path) -> pl.DataFrame:
    """The estimates of the audit in a folder: schema `ESTIMATES`, and `overall`."""
    estimates = tables.read(run / "data/estimates.parquet", ESTIMATES)
    return with_overall(estimates, tables.read(run / "data/claims.parquet", CLAIMS))


def with_overall(estimates: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """Estimates with `overall`: the one verdict of the row's claim.

    It is that of all attacks, data sets and the exact check together (`claims.overall`).
    """
    verdicts = overall(estimates, claims).select("mechanism", "epsilon", overall="verdict")
    return estimates.join(verdicts, on=["mechanism", "epsilon"], how="left", nulls_equal=True, maintain_order="left")


def compare(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Two audits side by side, a row an estimate that either has; what the other lacks is null.

    Columns of the first end in `_1`, of the second in `_2`. change: the second plug-in value less the first (null where
    either is infinite or absent). apart: whether the intervals from loss to upper have no point in common, each at its
    own confidence; a change without that may be chance, and so may one in many rows with it.
    """
    sides = [
        table.select(*ROW, *(pl.col(name).alias(f"{name}_{number}") for name in _COMPARED))
        for number, table in enumerate((one, other), start=1)
    ]
    both = sides[0].join(sides[1], on=ROW, how="full", nulls_equal=True, coalesce=True)
    change = pl.col("point_2") - pl.col("point_1")
    return both.with_columns(
        change=pl.when(change.is_finite()).then(change),
        apart=(pl.col("loss_1") > pl.col("upper_2")) | (pl.col("loss_2") > pl.col("upper_1")),
    ).sort(ROW)


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
