"""An audit's tables for a paper or a spreadsheet. Losses are in nats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import polars as pl

from epsilometer.auditing.claims.verdicts import overall, with_overall
from epsilometer.auditing.results.losses import presented
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT
from epsilometer.core import tables
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.json_text import for_json
from epsilometer.core.rounding import NOT_TESTABLE, cell

_MARKUP = {".md": "github", ".tex": "latex_booktabs"}
FORMATS = (".csv", ".json", *_MARKUP)
ESTIMATED = "estimates"
INTERVAL = "interval"  # a loss with its bounds, `.82 [.6, 1.1]`
SHORT = (  # main columns of the estimates
    "dataset", "mechanism", "epsilon", "attack", "success_rate", "loss", "upper", "delta_at_4_low", "overall",
)  # fmt: skip
SHORT_MARKUP = (  # main columns of the estimates in Markdown and LaTeX
    "dataset", "mechanism", "epsilon", "attack", "success_rate", INTERVAL, "delta_at_4_low", "overall",
)  # fmt: skip
# The other tables of results, and their paths under data/; * is a cell. No table contains a text of a data set.
TABLES = {
    **{
        name: name
        for name in ("claims", "deniability", "decisions", "instrument", "outputs", "estimators", "disagreements")
    },
    **{
        name: name
        for name in ("similarity", "similarities", "leakage", "budgets", "training_curves", "possible", "ceilings")
    },
    **{name: f"anonymity/*/{name}" for name in ("anonymity", "attackers", "by_length", "outcomes")},
    **{name: f"varied/{name}/*" for name in ("ablations", "sweeps")},
    **{
        name: f"{name}/*"
        for name in ("asked", "attribute_losses", "downstream", "exact", "membership", "one_run", "reconstruction")
    },
    "leaderboard": "leaderboard/*",
    "runs": "trained/*/runs",
}
# Endings of the names of a cell's other tables, which `*` must not match.
_BESIDE = (".curves", ".figures", ".rates", ".roc", ".texts", ".candidates")


def read_table(run: Path, name: str) -> pl.DataFrame:
    """Return a table of the audit in a folder: `estimates` (as `read`), or one of `TABLES`, over all cells.

    Raises UserError for an unknown table, and for a table that the audit does not have.
    """
    if name == ESTIMATED:
        return read(run)
    if name not in TABLES:
        raise unknown("table", name, [ESTIMATED, *TABLES])
    if not (files := _files(run, name)):
        held = ", ".join([ESTIMATED, *(table for table in TABLES if _files(run, table))])
        raise UserError(f"the audit in {run} has no table {name!r}; it has {held}", "EPS-R016")
    return pl.concat([tables.read(file, {}) for file in files], how="diagonal")


@dataclass(frozen=True)
class Filter:
    """The rows to export; an empty list stands for all values."""

    mechanism: Sequence[str] = ()
    attack: Sequence[str] = ()
    epsilon: Sequence[float] = ()

    def of(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return a table's rows with these values. Raises UserError for a missing column, or a value in no row."""
        for part in fields(self):
            values, name = getattr(self, part.name), part.name
            if not values:
                continue
            if name not in table.columns:
                raise UserError(
                    f"this table has no column {name!r} to filter by; it has {', '.join(table.columns)}", "EPS-R041"
                )
            there = table[name].drop_nulls().unique().sort().to_list()
            for value in values:
                if value not in there:
                    raise unknown(name, str(value), [f"{each:g}" if name == "epsilon" else each for each in there])
            table = table.filter(pl.col(name).is_in(list(values)))
            if table.is_empty():
                raise UserError("no row has all these values; leave out one of the filters", "EPS-R042")
        return table


def with_intervals(table: pl.DataFrame) -> pl.DataFrame:
    """Return estimates with a column `interval`: the plug-in loss and its bounds, as `core.rounding.cell` writes them.

    Other tables are returned as they are.
    """
    if not {"point", "loss", "upper", "ceiling"} <= {*table.columns}:
        return table
    rows = table.select("point", "loss", "upper", "ceiling").iter_rows()
    cells = [NOT_TESTABLE if ceiling == 0 else cell(point, low, high) for point, low, high, ceiling in rows]
    return table.with_columns(pl.Series(INTERVAL, cells, dtype=pl.String))


def _files(run: Path, name: str) -> list[Path]:
    return [path for path in sorted((run / "data").glob(f"{TABLES[name]}.parquet")) if not path.stem.endswith(_BESIDE)]


def read(run: Path) -> pl.DataFrame:
    """Return the estimates of the audit in a folder: schema `ESTIMATES`, and the verdicts of `verdicts.with_overall`.

    For an audit without the stages `claims` and `exact`, verdicts are by guesses only.
    """
    estimates = tables.read(run / "data/estimates.parquet", ESTIMATES)
    return with_overall(estimates, overall(estimates, read_claims(run), read_exact(run)))


def read_claims(run: Path) -> pl.DataFrame:
    """Return the worst cases of the audit in a folder: schema `CLAIMS`, without rows if there are none."""
    path = run / "data/claims.parquet"
    return tables.read(path, CLAIMS) if path.is_file() else pl.DataFrame(schema=dict(CLAIMS))


def read_exact(run: Path) -> pl.DataFrame:
    """Return the exact losses of the audit in a folder: schema `EXACT`, without rows if there are none."""
    files = [path for path in sorted((run / "data/exact").glob("*.parquet")) if path.suffixes[-2:-1] != [".curves"]]
    return pl.concat([pl.DataFrame(schema=dict(EXACT)), *(tables.read(path, EXACT) for path in files)])


def write(table: pl.DataFrame, path: Path, suffix: str | None = None, columns: Sequence[str] | None = None) -> None:
    """Write a table as `rendered` returns it. suffix: by default the path's; UserError if it is not in FORMATS."""
    if (suffix or path.suffix) not in FORMATS:
        raise UserError(f"a file to export to must end in {', '.join(FORMATS)}, got {path.name!r}", "EPS-R017")
    tables.write_text(rendered(table, suffix or path.suffix, columns), path)


def rendered(table: pl.DataFrame, suffix: str, columns: Sequence[str] | None = None) -> str:
    """Return a table as CSV, JSON, Markdown or LaTeX (booktabs), by suffix.

    columns: by default all. CSV and JSON have all digits; infinity is `inf` in CSV and "Infinity" in JSON. Markdown and
    LaTeX have numbers as `core.rounding.written` writes them. Missing values are empty. Only JSON has columns of lists.
    """
    wanted = table.select(table.columns if columns is None else columns)
    if suffix == ".json":
        return json.dumps(for_json(wanted.to_dicts()), ensure_ascii=False) + "\n"
    flat = wanted.select(~pl.selectors.nested())
    return flat.write_csv() if suffix == ".csv" else markup(table, suffix, flat.columns)


def markup(table: pl.DataFrame, suffix: str = ".md", columns: Sequence[str] | None = None) -> str:
    """Return these columns of a table, by default all, as Markdown (`.md`) or LaTeX (`.tex`)."""
    from tabulate import tabulate  # an optional package, which CSV and JSON do not need

    shown = presented(table, table.columns if columns is None else columns)
    pipe = "\\|" if suffix == ".md" else "|"  # tabulate does not escape the character, which would end a cell
    rows = [[value.replace("|", pipe) for value in row] for row in shown.iter_rows()]
    right = ["right" if table.schema[name].is_numeric() else "left" for name in shown.columns]
    markup = str(tabulate(rows, shown.columns, _MARKUP[suffix], colalign=right, disable_numparse=True)) + "\n"
    return markup if suffix == ".md" else markup.replace("≥", r"$\geq$").replace("∞", r"$\infty$")
