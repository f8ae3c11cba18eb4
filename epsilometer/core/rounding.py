"""Numbers as tables write them: four digits, and no bound says more than was proved.

Which way a number is rounded follows from its column: a lower bound (`loss`, `average_low`) down, an upper one
(`upper`, `tpr_high`) and a p-value up, all others to the nearest.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context

_DIGITS = 4
_DOWN = re.compile(r"(?:.*_)?(?:loss|low|lower|ceiling)(?:_[12])?|loss_at_delta_0|worst_output")
_UP = re.compile(r"(?:.*_)?(?:upper|high)(?:_[12])?|p_value")


def written(column: str, value: float, ceiling: float | None = None) -> str:
    """A number of this column; a `loss` that reached the ceiling of its row is marked `≥`, what is unbounded is `∞`."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    way = ROUND_FLOOR if _DOWN.fullmatch(column) else ROUND_CEILING if _UP.fullmatch(column) else ROUND_HALF_EVEN
    number = f"{float(Context(_DIGITS, way).create_decimal_from_float(value)) + 0.0:.{_DIGITS}g}"  # + 0.0: never -0
    return f"≥ {number}" if column == "loss" and ceiling is not None and 0 < ceiling <= value else number
