"""The next step on a data set, in one sentence: what to release, measure or audit."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.status import Status
from epsilometer.report.cells.answers import Answer, largest, names_of
from epsilometer.report.cells.limit_names import limit_name
from epsilometer.report.wording import at_budget, inflected, listed

_SHOWN = 3  # maximum number of listed limits


def step(each: Answer, table: pl.DataFrame) -> str:
    """Return the next step on a data set, with names of mechanisms. table: schema `DECISIONS`, of all data sets."""
    if more := each.keeping(True):
        several = "; of several mechanisms, the first by name" if len(names_of(more)) > 1 else ""
        return (
            f"release {each.dataset} by {at_budget(*largest(more))} (the largest budget that keeps every "
            f"limit{several}); decide again when the mechanism, its model or the texts change."
        )
    if each.keeping(None):
        return (
            f"compare rewrites of {each.dataset} with one fixed sentence: give the data set `sets` and a "
            "public part in params.yaml."
        )
    if each.usable:
        return "release nothing; try another mechanism."
    if not each.audited:
        return "audit a mechanism other than a control."
    if settled := settling(each, table):
        return f"release nothing yet. {settled}"
    smaller = sorted({name for name, epsilon in each.audited if epsilon is not None})
    if not smaller:
        return "release nothing yet. The audited mechanisms have no budget to lower, so try another."
    public = "" if "exemplars" in smaller else "`exemplars`, or "
    return (
        f"release nothing yet. Audit {public}smaller budgets of {listed(smaller)}; `epsilometer calibrate` finds them."
    )


def settling(each: Answer, table: pl.DataFrame) -> str:
    """Return what would settle the open cells of a data set, the easiest first; empty if nothing would."""
    of = table.filter(~pl.col("control"), dataset=each.dataset)
    cells = of.filter(limit=ALL, decision=Status.OPEN).select("mechanism", "epsilon")
    rows = of.filter(pl.col("allowed").is_not_null(), decision=Status.OPEN).join(
        cells, on=["mechanism", "epsilon"], nulls_equal=True, maintain_order="left"
    )
    nearest = rows.sort("needed", nulls_last=True, maintain_order=True).drop_nulls("settles")
    said: dict[tuple[str, str], list[str]] = {}
    for row in nearest.unique(["mechanism", "limit"], keep="first", maintain_order=True).to_dicts():
        count = "" if row["needed"] is None else f"{row['needed']:,} "
        said.setdefault((limit_name(row["limit"]), f"{count}{row['settles']}"), []).append(row["mechanism"])
    parts = [f"{limit} under {listed(mechanisms)} (needs {what})" for (limit, what), mechanisms in said.items()]
    open_ = inflected(len(parts), "Not decided", "Not decided, the easiest first")
    return f"{open_}: {listed(parts[:_SHOWN], _SHOWN)}." if parts else ""
