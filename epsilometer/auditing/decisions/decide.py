"""May a mechanism be used at a budget? What an audit shows, against stated limits, in one of four words.

- *within*: every limit that applies is kept, by upper ends of the thing itself (`evidence`).
- *beyond*: a lower end exceeds a limit.
- *no attack of ours exceeded it*: of a black box, whose attacks stay below; never within.
- *not shown*: anything else; `why` and `settles` say what is open, and what would settle it.

**How often within is wrong.** Let each upper end fail with probability at most alpha / 2; those by laws and claims that
need no draws never do. Budgets are gone through from the smallest, and the first that is not within ends it: no larger
one is called within, whatever its figures say. Of all budgets of a mechanism on a data set, then, any that is beyond a
limit is called within with probability at most alpha / 2: let b be the first that is beyond, and l a limit that it is
beyond. To err at any budget, b must be called within, for which the upper end of l at b must fail (a fixed sequence of
tests; Maurer, Hothorn and Lehmacher 1995). That several limits must all be kept costs nothing, and neither does the
number of budgets. Several mechanisms or data sets each have this probability. Laws are believed as stated: a test of
their fit that refuses one takes it away, and cannot prove one. Of identifiers it holds where no text that was not
audited has many more of them than those that were. *Beyond* errs with alpha / 2 for each lower end, of which a limit
has two at most at each budget: by attacks, and by a law at half of its alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.evidence import LimitEvidence, Tables, cells, evidence
from epsilometer.auditing.decisions.limits import ATTRIBUTE, IDENTIFIERS, Limits
from epsilometer.auditing.schemas import DECISIONS

WITHIN, BEYOND = "within", "beyond"
NOT_EXCEEDED, NOT_SHOWN = "no attack of ours exceeded it", "not shown"
DOES_NOT_APPLY = "does not apply"
ALL = "all"
_LARGER = "a smaller budget is not within"
_AS_MUCH = "the smaller budgets"
_WHY_NOT = {
    IDENTIFIERS: "none is recorded in the audited texts, and none has a pattern; names were not looked for",
    ATTRIBUTE: "no attribute is named",
}


def decide(limits: Limits, tables: Tables, attributes: Mapping[str, Sequence[str]], alpha: float) -> pl.DataFrame:
    """The decision on every cell (schema `DECISIONS`): a row a limit, and the row `all`.

    attributes: by data set, the labels to hide. alpha: of the audit's intervals.
    """
    rows, ended = [], set()
    for named, cell in cells(tables, alpha):
        each = [*evidence(cell, limits, attributes.get(named["dataset"], ()))]
        family = (named["dataset"], named["mechanism"])
        of_cell = decision(each, smaller_are_within=family not in ended)
        if of_cell[-1]["decision"] != WITHIN:
            ended.add(family)
        rows += [named | row for row in of_cell]
    return pl.DataFrame(rows, schema=dict(DECISIONS))


def decision(every: Sequence[LimitEvidence], smaller_are_within: bool = True) -> list[dict[str, Any]]:
    """The rows of `DECISIONS` of one cell, without its name: of each limit, and `all` as the last.

    smaller_are_within: whether the mechanism is within at all smaller budgets.
    """
    rows = [_row(each) for each in every]
    rows += [
        {"limit": kind, "decision": DOES_NOT_APPLY, "why": why}
        for kind, why in _WHY_NOT.items()
        if not any(each.limit.startswith(kind) for each in every)
    ]
    return [*rows, _of_all(rows, smaller_are_within)]


def _row(each: LimitEvidence) -> dict[str, Any]:
    word = BEYOND if each.exceeds else WITHIN if each.stays else NOT_EXCEEDED if each.shown else NOT_SHOWN
    settled = word in (BEYOND, WITHIN)
    return {
        "limit": each.limit,
        "allowed": each.allowed,
        **_end("low", each.low),
        **_end("high", each.high),
        "decision": word,
        "why": None if settled else each.why,
        "needed": None if settled else each.needed,
        "settles": None if settled else each.settles,
    }


def _end(name: str, end: tuple[float, str] | None) -> dict[str, Any]:
    value, by = end or (None, None)
    return {name: value, f"{name}_by": by}


def _of_all(rows: Iterable[Mapping[str, Any]], smaller_are_within: bool) -> dict[str, Any]:
    """The heaviest decision of the limits that apply, and whose it is."""
    by: dict[str, list[str]] = {}
    for row in rows:
        by.setdefault(row["decision"], []).append(row["limit"])
    word = next(word for word in (BEYOND, NOT_SHOWN, NOT_EXCEEDED, WITHIN) if word in by)
    if word == WITHIN and not smaller_are_within:
        return {"limit": ALL, "decision": NOT_SHOWN, "why": _LARGER, "settles": _AS_MUCH}
    return {"limit": ALL, "decision": word, "why": ", ".join(by[word]) if word != WITHIN else None}
