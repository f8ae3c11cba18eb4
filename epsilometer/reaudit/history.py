"""Every audit's losses, a line per audit, cell, epsilon and attack, in a file that git tracks and that only grows.

An audit is identified by its date (UTC, to the second). Lines are in the order of audits, which is also the order of
their dates. If the clock shows no later time than the last audit's date, the new date is one second after that date.
Otherwise an audit could be dated to an earlier year, in which some of alpha is still unspent.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.core.errors import UserError

FILE = Path("baseline/history.csv")
HISTORY: tables.Schema = {
    "date": pl.String,
    "commit": pl.String,  # `Commit.short`
    "round": pl.Int64,
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}
ROW = ["dataset", "mechanism", "epsilon", "attack"]

_DATE = "%Y-%m-%dT%H:%M:%SZ"
_DECIMALS = 6  # decimals of written losses, in nats
_BARS = "▁▂▃▄▅▆▇█"


def read(path: Path | str = FILE) -> pl.DataFrame:
    """Return the history, schema `HISTORY`; without rows if the file does not exist.

    Raises UserError naming the first line that is not a line of a history.
    """
    path, rows = Path(path), []
    if not path.is_file():
        return pl.DataFrame(schema=dict(HISTORY))
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a CSV file ({error}); restore it from git", "EPS-R006") from error
    if not lines or lines[0] != list(HISTORY):
        raise UserError(f"{path}, line 1: must be {','.join(HISTORY)}; restore the file from git", "EPS-R007")
    for number, line in enumerate(lines[1:], start=2):
        try:
            rows.append([_value(text, *column) for text, column in zip(line, HISTORY.items(), strict=True)])
            datetime.strptime(line[0], _DATE)
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: not a line of the history ({error}); fix it or restore the file from git",
                "EPS-R008",
            ) from error
    return pl.DataFrame(rows, schema=dict(HISTORY), orient="row")


def next_date(history: pl.DataFrame) -> str:
    """Return the date for an audit that is added now: the current time, at least a second after the latest audit."""
    now = datetime.now(UTC).strftime(_DATE)
    if not len(history) or now > (latest := max(history["date"])):
        return now
    return (datetime.strptime(latest, _DATE) + timedelta(seconds=1)).strftime(_DATE)


def append(estimates: pl.DataFrame, commit: str, round: int, path: Path | str = FILE, *, date: str = "") -> None:
    """Add an audit. estimates: at least the columns of `HISTORY` from `dataset` on. date: by default `next_date`."""
    past = read(path)
    rows = estimates.with_columns(
        date=pl.lit(date or next_date(past)), commit=pl.lit(commit), round=pl.lit(round, pl.Int64)
    )
    rows = rows.select(*HISTORY).with_columns(pl.col("loss", "point", "upper", "ceiling").round(_DECIMALS))
    tables.write_text(pl.concat([past, rows]).write_csv(), path)


def ends_with(history: pl.DataFrame, estimates: pl.DataFrame, round: int) -> bool:
    """Return True if the last audit of the history has these estimates and this round. estimates: as for `append`."""
    last = history.filter(pl.col("date") == history["date"].last(), round=round) if len(history) else history
    numbers = [*ROW, "trials", "loss", "point", "upper"]
    return last.select(numbers).equals(
        estimates.select(numbers).with_columns(pl.col("loss", "point", "upper").round(_DECIMALS))
    )


def audits(history: pl.DataFrame) -> list[str]:
    """Return the dates of the audits, in their order."""
    return history["date"].unique(maintain_order=True).to_list()


def audits_in(history: pl.DataFrame, year: int) -> int:
    """Return the number of audits in a year."""
    return sum(date.startswith(f"{year:04}-") for date in audits(history))


def courses(history: pl.DataFrame) -> list[dict[str, Any]]:
    """Return, for each row of the estimates, its number of audits, first and last plug-in loss, and a line of bars.

    history: may lack the column `attack`, if there is only one attack per cell and epsilon.
    """
    rows, names = [], [name for name in ROW if name in history.columns]
    for values, part in history.group_by(names, maintain_order=True):
        # Trials prove no loss above the ceiling.
        points = [min(p, c) for p, c in part.select("point", "ceiling").iter_rows()]
        rows.append(
            dict(zip(names, values, strict=True))
            | {"audits": len(part), "first": points[0], "last": points[-1], "course": bars(points)}
        )
    return rows


def bars(values: Sequence[float]) -> str:
    """Return a bar per value. The scale begins at 0, so that noise does not look like a trend."""
    top = max(values, default=0)
    return "".join(
        _BARS[min(len(_BARS) - 1, int(len(_BARS) * value / top))] if top > 0 else _BARS[0] for value in values
    )


def _value(text: str, name: str, dtype: object) -> object:
    if name == "epsilon" and not text:
        return None  # for a mechanism without a privacy budget
    if dtype == pl.Int64:
        return int(text)
    if dtype == pl.Float64:
        value = float(text)
        if math.isnan(value):
            raise ValueError("a loss must not be NaN")
        return value
    return text
