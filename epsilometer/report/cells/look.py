"""Odd curves and outputs, which automatic checks find, and statistics of rewrites."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.results.diagnostics import anomalies
from epsilometer.auditing.schemas import DISAGREEMENTS, ESTIMATORS, OUTPUTS
from epsilometer.cells.tables import latents_path
from epsilometer.core.guarantees import Granularity
from epsilometer.report import origin
from epsilometer.report.cells.composed import figure
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import Figure
from epsilometer.report.rows import CELL, comparable
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, records
from epsilometer.report.wording import loss_between, unbounded

_BESIDE = "embedding"  # the attack that all others are compared with, as in TeDA's table 2
_TEXTS = 512  # number of texts for the norms of latents, as for signal over noise


def section(results: TextResults) -> Section | None:
    """Return the findings of automatic checks; None if the table of outputs has no rows."""
    outputs = results.table("data/outputs.parquet", OUTPUTS)
    if outputs.is_empty():
        return None
    odd = anomalies(results.estimates, outputs)
    none = (
        "No loss falls or stays flat as ε grows, no mechanism leaves much of its texts unread, and no outputs are odd."
    )
    some = "Each finding may have an innocent explanation, such as a large budget; none is a proof."
    return Section(
        id="look",
        link="Oddities",
        heading="Worth a look",
        words=[some, *odd] if odd else [none],
        blocks=[outputs_table(results, outputs), attacks_table(results)],
        folded=True,
    )


def composed(results: TextResults) -> Figure | None:
    """Return the figure `composed.figure` of the table of outputs, for the folder of results."""
    rows = _beside_losses(results, results.table("data/outputs.parquet", OUTPUTS))
    return figure(_picture(), rows, results.estimates["mechanism"])


def _picture() -> str:
    return f"{origin.profile(Path())}-composed"


def _beside_losses(results: TextResults, outputs: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `OUTPUTS` with `loss` (in words), `point` (the same as a number) and `by_words`."""
    compared = comparable(results.estimates, results.exact, results.params.audit.alpha)
    losses = {tuple(row[name] for name in CELL): row for row in compared.to_dicts()}
    rows = []
    for row in outputs.sort(CELL).to_dicts():
        loss = losses.get(tuple(row[name] for name in CELL))
        exact = f"exact, {unbounded(loss['point'])}" if loss is not None and loss["exact"] else loss_between(loss)
        rows.append({**row, "by_words": _by_words(row), "loss": exact, "point": loss and loss["point"]})
    return rows


def outputs_table(results: TextResults, outputs: pl.DataFrame) -> Table:
    """Return a row per cell and epsilon: the claim, composed in two ways, the loss, and statistics of rewrites."""
    rows = [{**row, **_norms(row)} for row in _beside_losses(results, outputs)]
    columns = (
        f"{NAMED} | loss: {{loss}} | epsilon × mean words: {{by_words:number}} | composed: {{composed:number}} | "
        "mean words: {words:.1f} | mean units: {units:.1f} | most units: {units_max:,} | norm: {norm:number} | "
        "norm of noise: {noise:number} | signal over noise: {signal:number} | empty: {empty:share} | "
        "unchanged: {unchanged:share} | commonest: {commonest:share}"
    )
    caption = (
        "Two columns state the claim for a whole text, in nats, by basic composition: over the mean number of words of "
        "the sources (TeDA, figure 7), and over the privatised units (`composed`). For a claim on whole texts or "
        "distances, `composed` is the claimed loss of the median trial. The loss is exact if the law is known, else "
        "by attacks. Norms are L2 norms of latents "
        f"before the noise, and of the noise, as means over {_TEXTS} texts (TeDA, figure 10)."
    )
    picture = _picture() if any(row["by_words"] and row["point"] is not None for row in rows) else None
    return Table("What rewrites look like", caption, records(rows, columns), off_page=True, picture=picture)


def attacks_table(results: TextResults) -> Table:
    """Return a row per cell, epsilon and attack.

    A row has the losses by two estimators and from fewer trials. It also has the numbers of trials in which only this
    attack, or only the embedding attack, was right.
    """
    estimators = results.table("data/estimators.parquet", ESTIMATORS)
    disputes = results.table("data/disagreements.parquet", DISAGREEMENTS)
    key = [*CELL, "attack"]
    of_all = pl.col("trials") == pl.col("trials").max().over(key)
    every, fewer = estimators.filter(of_all), estimators.filter(~of_all)
    columns = (
        f"{NAMED} | attack: {{attack}} | trials: {{trials:,}} | loss: {{loss:.2f}} | by two rates: {{by_rates:.2f}}"
    )
    for count in fewer["trials"].unique().sort():
        name = f"first {count}"
        every = every.join(fewer.filter(trials=count).select(*key, pl.col("loss").alias(name)), key, "left")
        columns += f" | first {count:,}: {{{name}:.2f}}"
    for name, of, other in (("alone", "right", "wrong"), ("behind", "wrong", "right")):
        beside = disputes.filter(pl.col(other) == _BESIDE).rename({of: "attack", "trials": name})
        every = every.join(beside.select(*key, name), key, "left")
    if _BESIDE in every["attack"]:  # `disputes` has no row for attacks that never disagree
        others = pl.when(pl.col("attack") != _BESIDE)
        every = every.with_columns(others.then(pl.col(name).fill_null(0)) for name in ("alone", "behind"))
    columns += f" | right where {_BESIDE} is wrong: {{alone:,}} | wrong where {_BESIDE} is right: {{behind:,}}"
    caption = (
        "Lower bounds of the loss: by the share of right guesses, as everywhere on this page; by the true and false "
        "positives for the first candidate (TeDA, figure 9); and by the share in the first trials alone (figure 5). "
        f"The last columns count the trials in which the attack is right and the attack `{_BESIDE}` is wrong, and the "
        "reverse (table 2)."
    )
    return Table("Attacks and estimators beside each other", caption, records(every.sort(key), columns), off_page=True)


def _by_words(row: dict[str, Any]) -> float | None:
    """Return the claim per word times the mean number of words; None unless the claim is a sum over words or tokens."""
    if row["composed"] is None or not row["units"]:
        return None
    stated, _, rest = row["claim"].partition(" per ")  # as `Guarantee.describe` writes it
    if not rest.startswith((Granularity.TOKEN, Granularity.WORD)):
        return None
    each = float(row["composed"] / row["units"])
    return each * float(row["words"]) if math.isclose(each, float(stated), rel_tol=1e-5) else None


def _norms(row: dict[str, Any]) -> dict[str, float | None]:
    """Return the mean norm of latents before the noise, and of the noise; None without the files of latents."""
    cell = f"{row['dataset']}-{row['mechanism']}"
    paths = [Path(latents_path(cell, epsilon)) for epsilon in (None, row["epsilon"])]
    if row["signal"] is None or not all(path.is_file() for path in paths):
        return {"norm": None, "noise": None}
    before, after = (np.load(path, mmap_mode="r")[:_TEXTS].astype(np.float64) for path in paths)
    norm, noise = (float(np.linalg.norm(array, axis=1).mean()) for array in (before, after - before))
    return {"norm": norm, "noise": noise}
