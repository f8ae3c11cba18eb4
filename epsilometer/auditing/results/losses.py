"""Tables that print their main columns, and the format of their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import ClassVar

import polars as pl

from epsilometer.auditing.schemas import BY_RATES, BY_TEXT
from epsilometer.core.attack import Guesses
from epsilometer.core.errors import unknown
from epsilometer.core.rounding import written

SHORT = ("epsilon", "attack", "success_rate", "loss", "upper", "overall")
ALL = "all"


class Printed(pl.DataFrame):
    """A table that prints only the columns `short`. A table of selected columns prints every column."""

    short: ClassVar[Sequence[str]]

    def __str__(self) -> str:
        """Return the columns `short` as text."""
        with _PLAIN:
            shown = str(presented(self, self.short))
        return f"{shown}\n{self.width} columns in all: table.columns, and table.select(...) prints them"

    def __repr__(self) -> str:
        """Return the same as `str`."""
        return str(self)

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        """Return the printed columns for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"


class Losses(Printed):
    """An audit's table, which prints the columns `SHORT`.

    by_text: hits per text, with the columns of `BY_TEXT`; empty if not stored.
    by_rates: the loss by true and false positive rates, with the columns of `BY_RATES`; empty if not stored.
    guesses: every guess, by epsilon and attack; empty if not stored.
    """

    short = SHORT
    by_text: pl.DataFrame = pl.DataFrame(schema=dict(BY_TEXT))
    by_rates: pl.DataFrame = pl.DataFrame(schema=dict(BY_RATES))
    guesses: Mapping[float, Mapping[str, Guesses]] = MappingProxyType({})


_PLAIN = pl.Config(
    tbl_hide_column_data_types=True,
    tbl_hide_dataframe_shape=True,
    tbl_rows=-1,
    fmt_str_lengths=1000,
    apply_on_context_enter=True,
)


def presented(table: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return these columns as text. `core.rounding.written` formats the numbers, and missing values are empty."""
    ceilings = table["ceiling"] if "ceiling" in table.columns else [None] * len(table)
    return pl.DataFrame(
        {
            name: [_text(name, value, ceiling) for value, ceiling in zip(table[name], ceilings, strict=True)]
            for name in columns
        },
        schema=dict.fromkeys(columns, pl.String),
    )


def chosen(wanted: str | None, there: Sequence[str], short: Sequence[str]) -> Sequence[str]:
    """Return the columns named in a comma-separated list, every column for `all`, or the short list for None.

    Raises UserError for an unknown column.
    """
    if wanted is None or wanted == ALL:
        return there if wanted else short
    names = wanted.split(",")
    for name in names:
        if name not in there:
            raise unknown("column", name, [ALL, *there])
    return names


def _text(name: str, value: object, ceiling: float | None) -> str:
    if isinstance(value, float):
        return written(name, value, ceiling)
    return "" if value is None else str(value)
