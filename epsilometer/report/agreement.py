"""Test if a table agrees with a claim of a paper, by a rule that results can contradict.

Each rule compares a cell of a table with another value (a number, a word or another cell) by one of five relations:

- ABOVE, BELOW: agrees if every number of the cell's interval is above (below) every number of the other value's
  interval; disagrees if no number of the cell's interval is above (below) any number of the other value's interval.
- NEAR, with a distance `by`: agrees if every number of the cell's interval is within `by` of every number of the other
  value's interval; disagrees if no number of the cell's interval is within `by` of any number of the other value's
  interval. If an interval does not disagree and is too wide to agree, the verdict is *not testable here*.
- IS, IS NOT: the cell is the verdict of another test, and is compared word for word.
- NO EFFECT AT: the cell is the p-value of a test of the claim that nothing changes. The rule disagrees if the p-value
  is at most the other value. A larger p-value does not show that nothing changes, so the claim is then undecided.

A cell is `0.3 (0.2 to 0.4)`, `0.2 to 0.4`, `at least 2`, `0.3 ± 0.1`, `12 %` or a number. Overlapping intervals, and
tests without a finding, are undecided. A cell `not testable` gives *not testable here*, as does an empty cell under IS
or IS NOT.

`of` is the number n of cases behind a cell. The cases of a share are texts. The cases of a mean over batches are
batches, whose values must lie between 0 and 1. With `of`, a cell without an interval gets Clopper and Pearson's 99 %
interval, which is valid but wide for means. A macro F1 is neither a share nor a mean, so do not give `of` for it. A
verdict on a share is *not testable here* if every possible share of n texts leads to the same verdict. An undecided
share is *not testable here* if no possible share agrees, or if no possible share disagrees.

A number without an interval needs `off`, `factor` or `exact`. `off` is the largest amount by which chance may change
the number. If the other number is also a cell, `off` is for the difference of the two numbers. `factor` states this
largest change as a factor. `exact` states that chance plays no part, as in a law, a bound or a complete count.

`against` is an effect size, for a check of the rule's power (`report.power`). Assume that the claim is false by this
amount: the true value lies on the wrong side of the other number, at the distance `against` from it (for NEAR: at the
distance `by` + `against`). If the rule would then say *disagrees* with a probability below .8, the verdict is *not
testable here*. `report.claims` has the fields of a rule.
"""

from __future__ import annotations

import math
import re

from scipy.special import betaincinv

from epsilometer.core.errors import UserError
from epsilometer.report.power import LEAST, power, power_of_share

AGREES, DISAGREES, UNDECIDED, NOT_TESTABLE = "agrees", "disagrees", "undecided here", "not testable here"
_NUMBER = r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
_SILENT = {"no message": UNDECIDED, "undecided": UNDECIDED, "": NOT_TESTABLE}
_ALPHA = 0.01  # error probability of the intervals of shares


def agreement(
    cell: str,
    rule: str,
    other: str,
    by: str | None = None,
    *,
    of: int | None = None,
    other_of: int | None = None,
    off: float | None = None,
) -> str:
    """Return the verdict on a claim.

    of, other_of: the number of texts behind the share in `cell`, and behind the share in `other`. off: the amount by
    which chance may change a cell without an interval; 0 for an exact cell.

    Raises UserError if a number or an interval is expected but missing, and for a share outside 0 to 1.
    """
    if cell == "not testable":
        return NOT_TESTABLE
    if rule in ("IS", "IS NOT"):
        return _SILENT.get(cell) or (AGREES if (cell == other) == (rule == "IS") else DISAGREES)
    if rule == "NO EFFECT AT":
        return DISAGREES if interval(cell)[1] <= interval(other)[0] else UNDECIDED
    beside, reach = interval(other, other_of), interval(by or "0")[1]
    low, high = interval(cell, of)
    if low == high and of is None and not re.search(" to |±", cell):
        if off is None:
            raise UserError(
                f"{cell!r} has no interval. State `of` for a share, `off` or `factor` for its error, or `exact`.",
                "EPS-R011",
            )
        low, high = low - off, high + off
    verdict = _compared((low, high), rule, beside, reach)
    if of is not None:
        possible = {_compared(_of_share(hits / of, of), rule, beside, reach) for hits in range(of + 1)}
        tested = {AGREES, DISAGREES} <= possible if verdict == UNDECIDED else len(possible) > 1
        return verdict if tested else NOT_TESTABLE
    if verdict != UNDECIDED:
        return verdict
    too_wide = rule == "NEAR" and high - low >= 2 * reach - (beside[1] - beside[0])
    return NOT_TESTABLE if too_wide else verdict


def decided(
    cell: str, rule: str, other: str, by: str | None, *, against: float, of: int | None = None, off: float = 0
) -> bool:
    """Return True if the rule would probably disagree with a false claim; only then does its verdict decide.

    Probably means with a probability of at least `LEAST`. For a false claim, the true value is assumed to lie on the
    wrong side of `other`, at the distance `against` (see the module). A share in `other` must come with its
    interval. The other parameters are those of `agreement`.
    """
    (least, most), reach = interval(other), interval(by or "0")[1]
    low, high = interval(cell, of)
    if low == high:
        low, high = low - off, high + off
    if of is not None:
        truths = {"ABOVE": (least - against,), "BELOW": (most + against,)}.get(
            rule, (least - reach - against, most + reach + against)
        )

        def disagrees(hits: int) -> bool:
            return _compared(_of_share(hits / of, of), rule, (least, most), reach) == DISAGREES

        return power_of_share(of, disagrees, truths) >= LEAST
    losses = all(re.match(rf"(?:{_NUMBER} to|at least) {_NUMBER}$", figure) for figure in (cell, other))
    return power((low, high), rule, (least, most), against, losses=losses) >= LEAST


def _compared(ends: tuple[float, float], rule: str, other: tuple[float, float], reach: float) -> str:
    (low, high), (least, most) = ends, other
    if rule == "NEAR":
        if low > most + reach or high < least - reach:
            return DISAGREES
        return AGREES if high <= least + reach and low >= most - reach else UNDECIDED
    if rule == "BELOW":
        low, high, least, most = -high, -low, -most, -least
    return AGREES if low > most else DISAGREES if high <= least else UNDECIDED


def interval(cell: str, of: int | None = None) -> tuple[float, float]:
    """Return the ends of the interval in a cell. of: the number of texts behind a share."""
    numbers = [float(number.replace(",", "")) for number in re.findall(_NUMBER, cell)]
    if not numbers:
        raise UserError(f"{cell!r} has no number to compare with; name another cell, or compare with IS", "EPS-R012")
    if " to " in cell:
        return numbers[-2], numbers[-1]
    if "±" in cell:
        return numbers[0] - numbers[1], numbers[0] + numbers[1]
    if of is not None:
        return _of_share(numbers[0], of)
    return numbers[0], math.inf if cell.startswith("at least") else numbers[0]


def off_by(cell: str, factor: float) -> str:
    """Return a cell with the interval that a factor implies; a cell with its own interval stays.

    Raises UserError for a factor below 1.
    """
    if factor < 1:
        raise UserError(
            f"factor {factor:g} is below 1; give the factor by which the cell may be too small or too large", "EPS-R013"
        )
    low, high = interval(cell)
    return cell if low != high else f"{low / factor:.6g} to {low * factor:.6g}"


def multiplied(cell: str, times: float) -> str:
    """Return the interval of a cell, multiplied by `times`."""
    low, high = interval(cell)
    return f"at least {low * times:.6g}" if math.isinf(high) else f"{low * times:.6g} to {high * times:.6g}"


def _of_share(share: float, of: int) -> tuple[float, float]:
    """Return the ends of Clopper and Pearson's interval of a share."""
    if not 0 <= share <= 1:
        raise UserError(
            f"{share:g} is not a share of {of} texts; leave `of` out, or cite a share between 0 and 1", "EPS-R014"
        )
    hits = share * of
    low = float(betaincinv(hits, of - hits + 1, _ALPHA / 2)) if share > 0 else 0.0
    high = float(betaincinv(hits + 1, of - hits, 1 - _ALPHA / 2)) if share < 1 else 1.0
    return low, high
