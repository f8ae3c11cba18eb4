"""The decision on a mechanism at a budget: an audit's results against stated limits, as a status (`evidence.status`).

- *within*: upper bounds for every adversary show that every limit that applies is kept (`evidence`).
- *beyond*: a lower bound exceeds its limit.
- *not exceeded by these attacks*: for a black box, upper bounds for these attacks keep the limits. A black box is never
  *within*.
- *open*: anything else; `why` names the reason, and `settles` names what would settle the limit.

Labels that exist but are not among the attributes to hide are listed as open. They have no limit and decide nothing.

**The error of *within*.** Let each upper bound fail with probability at most alpha / 2; bounds by laws over all pairs
never fail. Budgets are judged in ascending order; after the first budget that is not within, no larger budget is called
within. Consider all budgets of a mechanism on a data set. Then the probability that any budget beyond a limit is called
within is at most alpha / 2. Proof: let b be the smallest budget that exceeds a limit, and l a limit that it exceeds. An
error at any budget requires that b is called within, so the upper bound for l at b must fail (a fixed sequence of
tests; Maurer, Hothorn and Lehmacher 1995). So neither the number of limits nor the number of budgets increases the
error. With several mechanisms or data sets, each of them has this error probability.

Assumptions: the mechanism follows its stated law; other texts do not have many more identifiers than the audited texts.
A test of fit can refute a law, which then gives no bound, but no test can prove a law. Each lower bound wrongly gives
*beyond* with probability at most alpha / 2. A limit has at most two lower bounds at each budget: one by attacks, and
one by a law at half of the law's alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.evidence import Assessed, Tables, cells, evidence
from epsilometer.auditing.decisions.limits import ATTRIBUTE, IDENTIFIERS, Limits
from epsilometer.auditing.evidence.combined import Bound
from epsilometer.auditing.evidence.status import Status, heaviest
from epsilometer.auditing.exact_loss.all_pairs import ALL_PAIRS
from epsilometer.auditing.schemas import DECISIONS

ALL = "all"
_LARGER = "a smaller budget is not within"
_AS_MUCH = "the smaller budgets"
_WHY_NOT = {
    IDENTIFIERS: "the audited texts record none, and no pattern of identifiers matches; names were not searched for",
    ATTRIBUTE: "the data set has no labels",
}


def decide(
    limits: Limits,
    tables: Tables,
    attributes: Mapping[str, Sequence[str]],
    alpha: float,
    labels: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pl.DataFrame:
    """Return the decision on every cell (schema `DECISIONS`): a row per limit, and the row `all`.

    attributes: by data set, the labels to hide. alpha: the alpha of the audit's intervals. labels: by data set, all
    labels; labels that need not be hidden are listed as open.
    """
    rows, ended = [], set()
    for named, cell in cells(tables, alpha):
        hidden = attributes.get(named["dataset"], ())
        each = [*evidence(cell, limits, hidden)]
        family = (named["dataset"], named["mechanism"])
        others = [label for label in labels.get(named["dataset"], ()) if label not in hidden]
        of_cell = decision(each, smaller_are_within=family not in ended, untested=others)
        of_cell[-1] |= worst(cell.followed)
        if of_cell[-1]["decision"] != Status.WITHIN:
            ended.add(family)
        rows += [named | row for row in of_cell]
    return pl.DataFrame(rows, schema=dict(DECISIONS))


def decision(
    every: Sequence[Assessed], smaller_are_within: bool = True, untested: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of `DECISIONS` of one cell, without its name: a row for each limit, and the row `all` last.

    smaller_are_within: True if the mechanism is within at all smaller budgets. untested: labels that exist but are not
    among the attributes to hide.
    """
    rows = [_row(each) for each in every]
    if untested:
        rows.append({"limit": ATTRIBUTE, "decision": Status.OPEN, "why": ", ".join(map(_spelled, untested))})
    rows += [
        {"limit": kind, "decision": Status.NOT_APPLICABLE, "why": why}
        for kind, why in _WHY_NOT.items()
        if not any(row["limit"].startswith(kind) for row in rows)
    ]
    return [*rows, _of_all(rows, smaller_are_within)]


def worst(law: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the columns of the row `all` on risks that an average hides: the worst pair, and texts above 4 nats."""
    if law is None:
        return {}
    return {
        "worst_pair": law["worst"],
        "texts_above_4": law["above_4"],
        "texts_compared": law["texts"],
        "pairs_compared": law["compared"],
        "pairs_there": law["there"],
        "largest": law["relative_epsilon"] if law["relative_method"] == ALL_PAIRS else None,
    }


def _spelled(label: str) -> str:
    return label.replace("_", " ")


def _row(each: Assessed) -> dict[str, Any]:
    word, crossed = each.status, each.bounds.crossed
    settled = word in (Status.BEYOND, Status.WITHIN)
    return {
        "limit": each.limit,
        "allowed": each.allowed,
        **_end("low", each.bounds.low),
        **_end("high", each.bounds.high),
        "decision": word,
        "why": crossed[0] if crossed is not None else (None if settled else each.why),
        "needed": None if settled else each.needed,
        "settles": None if settled else each.settles,
    }


def _end(name: str, end: Bound | None) -> dict[str, Any]:
    value, by = end or (None, None)
    return {name: value, f"{name}_by": by}


def _of_all(rows: Iterable[Mapping[str, Any]], smaller_are_within: bool) -> dict[str, Any]:
    """Return the row `all`: the heaviest decision among the limits that apply, and the limits with this decision."""
    by: dict[Status, list[str]] = {}
    for row in rows:
        if "allowed" in row:
            by.setdefault(row["decision"], []).append(row["limit"])
    word = heaviest(by)
    if word == Status.WITHIN and not smaller_are_within:
        return {"limit": ALL, "decision": Status.OPEN, "why": _LARGER, "settles": _AS_MUCH}
    return {"limit": ALL, "decision": word, "why": ", ".join(by[word]) if word != Status.WITHIN else None}
