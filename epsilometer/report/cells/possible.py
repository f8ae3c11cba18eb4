"""Worth (mean cosine), compared with the largest worth that any mechanism can have at the same loss in nats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from epsilometer.auditing.ceilings.share import AT_LEAST, AT_MOST, EXACTLY
from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.schemas import CEILINGS, POSSIBLE
from epsilometer.cells.tables import ceilings_path, possible_path
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import CELL, tails
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import bounded, listed, nats, proved, tail_words

_SHARES: Mapping[str, Callable[[float], str]] = {EXACTLY: nats, AT_LEAST: proved, AT_MOST: bounded}
_ENDS = {"law": "", "latents": "≤ ", "draws": "≤ ", "attacks": "≥ "}  # sign of a bound, by the source of a loss
_SAID = (0.0, 0.5, 1.0, 2.0, 4.0)  # nats


def section(results: TextResults) -> Section | None:
    """Return a table per data set with trials of sets; None without such trials, as in audits of earlier versions."""
    table = certified(results)
    if table.is_empty():
        return None
    curves = results.table(ceilings_path(), CEILINGS)
    parts = with_tails(results, table).group_by("dataset", maintain_order=True)
    explained = (
        "Rewrites that are more similar to their texts give more away. The ceiling holds for every mechanism on these "
        "texts; perhaps no mechanism reaches it. This section does not rank mechanisms, because an average loss does "
        "not show δ."
    )
    tables = [(str(name), part) for (name,), part in parts]
    said = [sentence(name, curves.filter(dataset=name), part) for name, part in tables]
    blocks = [beside_ceiling(name, part) for name, part in tables]
    return Section("possible", "Possible", "How good it can be", [explained, *said], blocks=blocks, folded=True)


def beside_ceiling(dataset: str, table: pl.DataFrame) -> Table:
    """Return a table of worth and its ceiling at the loss of the same trials. table: rows of `with_tails`."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | cosine: {worth:.3f} ({worth_low:.3f} to "
        "{worth_high:.3f}) | loss: {side}{loss:number} | ceiling: "
        "{ceiling:bounded} | share of the possible: {part} | delta at 4 nats: {tails}"
    )
    rows = []
    for row in table.to_dicts():
        part, way = row["share"], row["share_is"]
        shown = None if part is None else f"{way} {_SHARES[way](part)}".removeprefix("= ")
        tails = tail_words(row["tail_low"], row["tail"])
        rows.append(row | {"side": _ENDS[row["by"]], "part": shown, "tails": tails})
    caption = (
        "Figures are measured on one pair from each of many random sets of texts. The ceiling is the largest mean "
        "cosine that any mechanism can have at that loss. The share is 0 for one public text given to everybody, "
        "and 1 at the ceiling."
    )
    return Table(f"How good it can be on {dataset}", caption, records(rows, columns))


def certified(results: TextResults) -> pl.DataFrame:
    """Return the table of schema `POSSIBLE`; without rows for audits by versions that had no trials of sets."""
    return results.tables(filter(results.has, [possible_path()]), POSSIBLE)


def pure_claims(results: TextResults) -> dict[tuple[str, str, float | None], float]:
    """Return the claimed loss between any two texts, by data set, mechanism and epsilon; without violated claims."""
    violated = results.verdicts.filter(verdict=VIOLATED).select("mechanism", "epsilon").rows()
    rows = certified(results).drop_nulls("pure_epsilon").select(*CELL, "pure_epsilon").iter_rows()
    return {
        (dataset, mechanism, epsilon): loss
        for dataset, mechanism, epsilon, loss in rows
        if (mechanism, epsilon) not in violated
    }


def with_tails(results: TextResults, table: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `POSSIBLE` with the bounds on each cell's delta at 4 nats (`rows.tails`), in their order."""
    described = tails(results.estimates, results.exact)
    return table.join(described, on=CELL, how="left", nulls_equal=True, maintain_order="left")


def sentence(dataset: str, curve: pl.DataFrame, table: pl.DataFrame) -> str:
    """Describe the largest worth of any mechanism on a data set, and that of giving everybody one text."""
    at = dict(curve.select("nats", "ceiling").iter_rows())
    ceilings = listed([f"{bounded(at[level])} at {level:g}" for level in _SAID if level in at])
    fixed = table["one_text"][0]
    beside = "" if fixed is None else f"; the best single text, given to everybody, has {fixed:.2f}"
    return (
        f"On {dataset} no mechanism can have a mean cosine above {ceilings} nats{beside} ({table['sets'][0]:,} sets)."
    )
