"""The names of limits in sentences and tables."""

from __future__ import annotations

from epsilometer.auditing.decisions.limits import DELTA, IDENTIFIERS, LOSS
from epsilometer.report.wording import plural

_NAMES = {LOSS: "guesses between two texts", DELTA: "rare outputs"}


def limit_name(limit: str) -> str:
    """Return the name of a limit, such as `rare outputs` or `gender`. limit: as in the table of decisions."""
    kind, _, of = limit.partition(": ")
    return plural(of) if kind == IDENTIFIERS and of else _NAMES.get(limit, of or limit)
