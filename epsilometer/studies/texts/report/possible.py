"""How good it can be: worth beside the largest that any mechanism can have at the same loss. Losses are in nats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.ceilings.share import AT_LEAST, AT_MOST, EXACTLY
from epsilometer.auditing.schemas import CEILINGS, POSSIBLE
from epsilometer.report.rows import CELL, tails
from epsilometer.report.section import Section
from epsilometer.report.wording import bounded, listed, nats, proved, tail_words
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.tables import ceilings_path, possible_path

_SHARES: Mapping[str, Callable[[float], str]] = {EXACTLY: nats, AT_LEAST: proved, AT_MOST: bounded}
_SAID = (0.0, 0.5, 1.0, 2.0, 4.0)  # nats


def section(results: TextResults) -> Section | None:
    """A table a data set whose trials are of sets; absent without any."""
    table = results.table(possible_path(), POSSIBLE)
    if table.is_empty():
        return None
    described = with_tails(results, table)
    curves = results.table(ceilings_path(), CEILINGS)
    return Section(
        id="possible",
        link="How good it can be",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "tables": [
                {"dataset": dataset, "sentence": sentence(curves.filter(dataset=dataset), part), "rows": rows(part)}
                for (dataset,), part in described.group_by("dataset", maintain_order=True)
            ]
        },
    )


def with_tails(results: TextResults, table: pl.DataFrame) -> pl.DataFrame:
    """Rows of `POSSIBLE` with what is known of each cell's delta at 4 nats (`rows.tails`), in their order."""
    described = tails(results.estimates, results.exact)
    return table.join(described, on=CELL, how="left", nulls_equal=True, maintain_order="left")


def sentence(curve: pl.DataFrame, table: pl.DataFrame) -> str:
    """What no mechanism can exceed on a data set, and what one text for everybody keeps."""
    at = dict(curve.select("nats", "ceiling").iter_rows())
    ceilings = listed([f"{bounded(at[level])} at {level:g}" for level in _SAID if level in at])
    fixed = table["one_text"][0]
    beside = "" if fixed is None else f"; the best single text, given to everybody, has {fixed:.2f}"
    return f"No mechanism can have a mean cosine above {ceilings} nats{beside} ({table['sets'][0]:,} sets)."


def rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a data set; first: where another mechanism begins."""
    shown, before = [], None
    for row in table.to_dicts():
        share = None if row["share"] is None else _SHARES[row["share_is"]](row["share"])
        words = {"tails": tail_words(row["tail_low"], row["tail"]), "share": share}
        shown.append({**row, "first": row["mechanism"] != before, **words})
        before = row["mechanism"]
    return shown
