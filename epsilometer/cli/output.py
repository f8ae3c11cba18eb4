"""The output of commands: JSON, or tables in columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.errors import printable
from epsilometer.core.json_text import for_json
from epsilometer.core.rounding import written
from epsilometer.runtime.streams import results


def tell(*parts: object, sep: str = "\n", end: str = "\n") -> None:
    """Print a result, even while standard output is withheld."""
    print(*parts, sep=sep, end=end, file=results(), flush=True)


def show(result: Any, as_json: bool, columns: Sequence[str] | None = None) -> None:
    """Print rows as JSON or as an aligned table. columns: names of the columns to print, None for all."""
    if as_json:
        rows = result if columns is None else [{name: row[name] for name in columns} for row in result]
        tell(json.dumps(for_json(rows), indent=1))
    else:
        tell(printable(_table(result, columns)))


def shown(value: Any) -> str:
    """Return one value of a result as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {part}" for key, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> str:
    if not rows:
        return "nothing was estimated"
    names = list(rows[0] if columns is None else columns)
    cells = [names] + [[_cell(name, row) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = [isinstance(rows[0][name], str) for name in names]
    return "\n".join(
        "  ".join(c.ljust(w) if t else c.rjust(w) for c, w, t in zip(row, widths, text, strict=True)).rstrip()
        for row in cells
    )


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if isinstance(value, float):
        return written(name, value, row.get("ceiling"))
    return "-" if value is None else str(value)
