"""The three kinds of answer: the status of a limit, the change since a baseline, and the end of a search."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """The statuses of a limit, the heaviest first.

    BEYOND: a lower bound is above the limit. OPEN: the limit lies between the bounds. NOT_TESTABLE: there were too few
    observations to show the limit kept. NOT_EXCEEDED: an upper bound that covers the attacks that ran is at most the
    limit. WITHIN: an upper bound that covers every adversary is at most the limit. NOT_APPLICABLE: the data have
    nothing that the limit concerns. If the limit is the smallest allowed value, the two bounds are exchanged.
    """

    BEYOND = "beyond"
    OPEN = "open"
    NOT_TESTABLE = "not testable"
    NOT_EXCEEDED = "not exceeded by these attacks"
    WITHIN = "within"
    NOT_APPLICABLE = "not applicable"

    @property
    def passes(self) -> bool:
        """True if a gate passes with this status."""
        return self in (Status.NOT_EXCEEDED, Status.WITHIN)


def heaviest(statuses: Iterable[Status]) -> Status:
    """Return the heaviest status, which decides over several limits; NOT_APPLICABLE without statuses."""
    order = list(Status)
    return min(statuses, key=order.index, default=Status.NOT_APPLICABLE)


class Change(StrEnum):
    """The change of a figure since the baseline.

    NEW: only the audit has the figure. GONE: only the baseline has it. NOT_TESTABLE: no outcome could have shown that
    the figure is worse.
    """

    WORSE = "worse"
    BETTER = "better"
    UNCHANGED = "no evidence of change"
    NEW = "new"
    GONE = "gone"
    NOT_TESTABLE = "not testable"


class SearchStatus(StrEnum):
    """The end of a search for the value at which a figure meets a target.

    UNDECIDED: the interval is wider than requested. OUTSIDE: the target is not met between the smallest and the largest
    value. FALLING: the figure falls through the target. NOT_MONOTONE: the figure crosses the target more than once.
    """

    FOUND = "found"
    UNDECIDED = "undecided"
    OUTSIDE = "outside"
    FALLING = "falling"
    NOT_MONOTONE = "not monotone"
