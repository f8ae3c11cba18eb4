"""Rounding of displayed numbers: no displayed bound claims more than was proved.

Tables show four significant digits (`written`), sentences and pages a fixed number of decimals (`rounded`). In tables
the column determines the direction of rounding. Lower bounds (`loss`, `average_low`) are rounded down, upper bounds
(`upper`, `tpr_high`) and p-values up, and all other numbers to the nearest.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DOWN, UP, NEAREST = ROUND_FLOOR, ROUND_CEILING, ROUND_HALF_EVEN
NOT_TESTABLE = "not testable"  # shown for a lower bound of 0 that no outcome could have raised
_DIGITS = 4
_MOST = 12  # most decimals
_SLACK = 1e-9  # allowed for a decimal's floating-point error: 0.29 is stored as a little less
_DOWN = re.compile(r"(?:.*_)?(?:loss|low|lower|ceiling)(?:_[12])?|loss_at_delta|worst_output")
_UP = re.compile(r"(?:.*_)?(?:upper|high)(?:_[12])?|delta_at_4(?:_[12])?|p_value")


def written(column: str, value: float, ceiling: float | None = None) -> str:
    """Return a number of this column as text with four significant digits, or `∞`.

    A `loss` at the ceiling of its row is marked `≥`. If the ceiling is 0, the text is `not testable`.
    """
    if column in ("loss", "lower") and ceiling == 0:
        return NOT_TESTABLE
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    way = DOWN if _DOWN.fullmatch(column) else UP if _UP.fullmatch(column) else NEAREST
    number = f"{float(Context(_DIGITS, way).create_decimal_from_float(value)) + 0.0:.{_DIGITS}g}"  # + 0.0 avoids -0
    return f"≥ {number}" if column == "loss" and ceiling is not None and 0 < ceiling <= value else number


def cell(point: float, low: float, high: float) -> str:
    """Return a figure with its interval for a table, `.82 [.6, 1.1]`: bounds rounded outward, no leading zeros.

    If all three numbers are below 10, they get two decimals; if all are below 100, one decimal; else none.
    """
    largest = max((abs(value) for value in (point, low, high) if math.isfinite(value)), default=0.0)
    decimals = 2 if largest < 10 else 1 if largest < 100 else 0
    ends = (_short(low, decimals, DOWN), _short(high, decimals, UP))
    bounds = ", ".join(end.rstrip("0").rstrip(".") or "0" if "." in end else end for end in ends)
    return f"{_short(point, decimals, NEAREST)} [{bounds}]"


def _short(value: float, decimals: int, way: str) -> str:
    """Return a number with this many decimals and without a zero in front of the point."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return re.sub(r"^(-?)0(?=\.)", r"\1", f"{rounded(value, decimals, way):.{decimals}f}")


def beside(value: float, limit: float, way: str, decimals: int = 2) -> str:
    """Return a number with at least `decimals` decimals, and enough to show it strictly on its side of a limit.

    way: as in `rounded`. A number equal to the limit (up to rounding errors) is shown like the limit.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if abs(value - limit) <= 2 * _SLACK:  # `rounded` could move such a number onto the limit
        return f"{limit:.{decimals}f}" if round(limit, decimals) == limit else f"{limit:.{_MOST}f}".rstrip("0")
    for places in range(decimals, _MOST + 1):
        shown = rounded(value, places, way)
        if shown != limit and (shown > limit) == (value > limit):
            break
    return f"{shown:,.{places}f}"


def rounded(value: float, decimals: int, way: str) -> float:
    """Return a finite number, rounded to this many decimals. way: DOWN for lower bounds, UP for upper, else NEAREST."""
    exact = Decimal.from_float(value + {DOWN: _SLACK, UP: -_SLACK, NEAREST: 0.0}[way])
    return float(exact.quantize(Decimal(1).scaleb(-decimals), way, Context(prec=400))) + 0.0  # + 0.0 avoids -0
