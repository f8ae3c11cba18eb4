"""Several pieces of evidence about one figure: the best bounds, and contradictions between sources.

Every piece gives a lower bound; an upper bound counts only if it covers every adversary. If a lower and an upper bound
of the same source cross, that source is wrong, and an error is raised. If bounds of two sources cross, such as an
attack's and a law's, the contradiction is reported and the upper bound is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from epsilometer.auditing.evidence.bounds import bounds
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.evidence.status import Status
from epsilometer.core.errors import LawError

Bound = tuple[float, By]
"""A bound and its source."""

_SAME = 1e-9  # largest floating-point difference between two computations of one figure


@dataclass(frozen=True)
class Combined:
    """The largest lower bound, and the smallest upper bound that covers every adversary; None if there is none.

    crossed: the contradiction in words, and the source of the upper bound that was dropped.
    """

    low: Bound | None = None
    high: Bound | None = None
    crossed: tuple[str, By] | None = None

    def status(self, limit: Limit) -> Status:
        """Return BEYOND, WITHIN or OPEN."""
        if self.low is not None and self.low[0] > limit.allowed + _SAME:
            return Status.BEYOND
        within = self.high is not None and self.high[0] <= limit.allowed + _SAME
        return Status.WITHIN if within else Status.OPEN


def combine(pieces: Sequence[Evidence], *, below: float, above: float) -> Combined:
    """Combine pieces of evidence about the same figure.

    below, above: the error probabilities of lower and upper bounds; a computed bound with a larger error is ignored.
    Raises LawError if bounds of one source cross.
    """
    lows, highs = [], []
    for piece in pieces:
        low, high = bounds(piece.data, piece.scale, below, above)
        error = piece.data.error if isinstance(piece.data, Computed) else 0.0
        if math.isfinite(low) and error <= below:
            lows.append((low, piece.by))
        if math.isfinite(high) and error <= above and piece.covers is Covers.EVERYONE:
            highs.append((high, piece.by))
    lows, highs = sorted(lows), sorted(highs)
    for (value, by), (end, of) in product(lows, highs):
        if by == of and _above(value, end):
            raise LawError(
                f"{pieces[0].of} is at least {value:.6g} and at most {end:.6g}, both by {by}; check the "
                "mechanism's laws and claim; if they are correct, report this",
                "EPS-A074",
            )
    low_bound = lows[-1] if lows else None
    crossed = [high for high in highs if low_bound is not None and _above(low_bound[0], high[0])]
    if low_bound is None or not crossed:
        return Combined(low_bound, highs[0] if highs else None)
    (value, by), (end, of) = low_bound, crossed[0]
    said = f"a contradiction: at least {value:.4g} by {by}, but at most {end:.4g} by {of}; the upper bound is dropped"
    others = [high for high in highs if high not in crossed]
    return Combined(low_bound, next(iter(others), None), (said, of))


def _above(value: float, end: float) -> bool:
    """Return True if a lower bound exceeds an upper bound by more than rounding errors."""
    return value > end + _SAME * max(1.0, abs(end))
