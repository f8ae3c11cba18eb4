"""Whether what a table shows agrees with what a paper claims, by a rule that could have come out otherwise.

The rules, of a cell of a table and a number, a word or another cell:

- ABOVE, BELOW: agrees where its interval lies surely above (below) the other's, disagrees where surely not.
- NEAR x BY y: agrees where its interval lies within x - y to x + y, disagrees where the two have no number in common.
  Without BY an interval can only disagree.
- IS, IS NOT: a verdict that another test has reached, in its words.

A cell is `0.3 (0.2 to 0.4)`, `0.2 to 0.4`, `at least 2`, `0.3 ± 0.1`, `12 %` or a number. Overlaps are undecided, and
so is a test without a message; of one that nothing could have turned the answer is *not testable here*.
"""

from __future__ import annotations

import math
import re

from epsilometer.core.errors import UserError

AGREES, DISAGREES, UNDECIDED, NOT_TESTABLE = "agrees", "disagrees", "undecided here", "not testable here"
RULE = re.compile(r"^(?P<cell>.+?) (?P<rule>ABOVE|BELOW|NEAR|IS NOT|IS) (?P<other>.+?)(?: BY (?P<by>.+))?$", re.DOTALL)
_NUMBER = r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
_SILENT = {"no message": UNDECIDED, "undecided": UNDECIDED, "not testable": NOT_TESTABLE, "": NOT_TESTABLE}


def agreement(cell: str, rule: str, other: str, by: str | None = None) -> str:
    """Returns the verdict on a claim. Raises UserError where a number is expected and none is there."""
    if rule in ("IS", "IS NOT"):
        return _SILENT.get(cell) or (AGREES if (cell == other) == (rule == "IS") else DISAGREES)
    low, high = interval(cell)
    least, most = interval(other)
    if rule == "NEAR":
        reach = interval(by or "0")[1]
        if low > most + reach or high < least - reach:
            return DISAGREES
        return AGREES if low >= least - reach and high <= most + reach else UNDECIDED
    if rule == "BELOW":
        low, high, least, most = -high, -low, -most, -least
    return AGREES if low > most else DISAGREES if high <= least else UNDECIDED


def interval(cell: str) -> tuple[float, float]:
    """Returns the ends of what a cell says."""
    numbers = [float(number.replace(",", "")) for number in re.findall(_NUMBER, cell)]
    if not numbers:
        raise UserError(f"{cell!r} has no number to compare with; name another cell, or compare with IS")
    if " to " in cell:
        return numbers[-2], numbers[-1]
    if "±" in cell:
        return numbers[0] - numbers[1], numbers[0] + numbers[1]
    return numbers[0], math.inf if cell.startswith("at least") else numbers[0]
