"""The status of a limit: the answer to whether a figure is at most what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """The heaviest first.

    BEYOND: a lower bound is above the limit. OPEN: the bounds lie on both sides of the limit. NOT_TESTABLE: so few
    observations could not have shown the limit kept. NOT_EXCEEDED: an upper bound that covers the attacks that ran is
    at most the limit. WITHIN: an upper bound that covers every adversary is. NOT_APPLICABLE: there is nothing to limit.
    """

    BEYOND = "beyond"
    OPEN = "open"
    NOT_TESTABLE = "not testable"
    NOT_EXCEEDED = "not exceeded by these attacks"
    WITHIN = "within"
    NOT_APPLICABLE = "not applicable"

    @property
    def passes(self) -> bool:
        """True if a gate passes on it."""
        return self in (Status.NOT_EXCEEDED, Status.WITHIN)


def heaviest(statuses: Iterable[Status]) -> Status:
    """Return the status that decides over several limits; NOT_APPLICABLE for none."""
    order = list(Status)
    return min(statuses, key=order.index, default=Status.NOT_APPLICABLE)
