"""Rewrites at comparable loss: what mechanisms that lose about as much make of the same text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from markupsafe import Markup

from epsilometer.report.rows import CELL, comparable
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import bounded, inflected, nats, proved
from epsilometer.studies.texts.report.results import TextResults

SHOWN = 2  # texts a level
EXAMPLES = [
    *CELL,
    "level",
    "loss",
    "original",
    "rewrite",
]  # level: to the nearest nat; loss: in words, with whose it is


def section(results: TextResults) -> Section | None:
    """The first trials of every public data set, as rewritten by mechanisms of comparable loss."""
    table = examples(results)
    if table.is_empty():
        return None
    words = (
        "What the mechanisms make of the same text where they lose about the same: on average by their laws where it "
        "says exact, else as the strongest attack on what is released shows."
    )
    return Section("examples", "Examples", "Rewrites at comparable loss", [words], blocks=[*groups(table)])


def examples(results: TextResults) -> pl.DataFrame:
    """Columns EXAMPLES: the budgets that `at_levels` chooses by the losses by which mechanisms are compared."""
    rows = []
    losses = comparable(results.estimates, results.exact, results.params.audit.alpha)
    for cell in at_levels(losses).filter(pl.col("dataset").is_in(results.public)).to_dicts():
        dataset, mechanism, epsilon = (cell[name] for name in CELL)
        texts, source = results.texts(dataset), results.trials(dataset).source
        for trial, rewrite in results.rewrites(dataset, mechanism, epsilon).items():
            if trial < SHOWN:
                rows.append((*(cell[name] for name in (*CELL, "level")), in_words(cell), texts[source[trial]], rewrite))
    return pl.DataFrame(rows, schema=EXAMPLES, orient="row")


def at_levels(losses: pl.DataFrame, levels: int = 3) -> pl.DataFrame:
    """The rows of `losses` at which mechanisms lose about the same, with `level`, the loss to the nearest nat.

    losses: as `rows.comparable` gives them: exact averages, and else what the strongest attack shows. For each data set
    up to `levels` levels that the most mechanisms reach, and for each mechanism there its budget nearest to the level.
    Levels that one mechanism alone reaches compare nothing, and a loss without an upper end is at no level.
    """
    shown = losses.filter(pl.col("point").is_finite(), pl.col("upper").is_finite())
    level = (pl.col("point") + 0.5).floor()
    nearest = (
        shown.with_columns(level=level, away=(pl.col("point") - level).abs())
        .sort("dataset", "level", "mechanism", "away", "epsilon")
        .unique(["dataset", "level", "mechanism"], keep="first", maintain_order=True)
    )
    shared = nearest.group_by("dataset", "level").len("mechanisms").filter(pl.col("mechanisms") > 1)
    best = (
        shared.sort("dataset", "mechanisms", "level", descending=[False, True, False]).group_by("dataset").head(levels)
    )
    return nearest.join(best, on=["dataset", "level"], how="semi")


def in_words(cell: Mapping[str, Any]) -> str:
    """`exact, 5.37`, or the interval of the strongest attack with its name: `0.88 to 1.36 by likelihood`."""
    if cell["exact"]:
        return f"exact, {nats(cell['point'])}"
    return f"{proved(cell['loss'])} to {bounded(cell['upper'])} by {cell['attack']}"


def groups(examples: pl.DataFrame) -> Iterator[Table]:
    """A table a data set and level of loss (to the nearest whole nat): each original, and its rewrites below it."""
    columns = "mechanism: {mechanism} | epsilon: {epsilon:budget} | loss: {loss} | text: {rewrite}"
    for (dataset, level), table in examples.sort("dataset", "level").group_by("dataset", "level", maintain_order=True):
        rows = []
        for (original,), rewrites in table.group_by("original", maintain_order=True):
            rows.append(
                {"mechanism": "original", "epsilon": "", "loss": "", "text": Markup("<b>{}</b>").format(original)}
            )
            rows += records(rewrites.sort("mechanism", "epsilon"), columns)
        heading = f"{dataset} · loss of about {level:g} {inflected(level, 'nat', 'nats')}"
        yield Table(heading, "", rows, texts=True)
