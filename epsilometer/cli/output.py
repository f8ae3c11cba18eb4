"""What commands print: JSON, or tables in columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.errors import printable


def show(result: Any, as_json: bool) -> None:
    """Print JSON, or an aligned table of rows."""
    print(json.dumps(_finite(result), indent=1) if as_json else printable(_table(result)), flush=True)


def shown(value: Any) -> str:
    """Returns one value of a result as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {part}" for key, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(value: Any) -> Any:
    """JSON has no infinity: what is unbounded becomes null."""
    if isinstance(value, Mapping):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "nothing was estimated"
    cells = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = [isinstance(value, str) for value in rows[0].values()]
    return "\n".join(
        "  ".join(c.ljust(w) if t else c.rjust(w) for c, w, t in zip(row, widths, text, strict=True)).rstrip()
        for row in cells
    )


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
