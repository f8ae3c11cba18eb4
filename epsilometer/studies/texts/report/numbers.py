"""All numbers: a row an estimate."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import with_overall
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.report.rows import averages
from epsilometer.report.section import Section
from epsilometer.report.table import Table, record, records
from epsilometer.report.wording import bounded, nats, proved, tail_words
from epsilometer.studies.texts.report.possible import certified
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section:
    """The table behind the curves, with the one verdict on each claim."""
    estimates, hardly = with_overall(results.estimates, results.verdicts), results.unread
    exact = results.exact.filter(~pl.col("method").str.starts_with(AT_LEAST))
    rows = [numbers(row, hardly) for row in with_laws(estimates, exact)]
    columns = (
        "data set: {dataset} | attack: {attack} | sees: {sees} | mechanism: {mechanism} | epsilon: {epsilon:budget}"
    )
    worth = certified(results).with_columns(attack=pl.lit("worth"), sees=pl.lit("text"))
    rows += records(worth, columns + " | loss: {proved:proved}")
    caption = (
        "Losses in nats; 0 means that there is no evidence. `strongest` is the best attack on what is released and "
        "`strongest_inside` the best on everything, at a level corrected for the choice"
        + (", and `worth` what cosines prove without any attack" if len(worth) else "")
        + "; docs/reading.md explains each column."
    )
    return Section("numbers", "Numbers", "All numbers", blocks=[Table("", caption, rows, page_only=True)])


def with_laws(estimates: pl.DataFrame, exact: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The estimates with `exact`, the average by the law of what is released, which no attack on that exceeds.

    None where it is not known.
    """
    by_law = averages(exact, pairs=ALL)
    for row in estimates.to_dicts():
        cell = (row["dataset"], row["mechanism"], row["epsilon"])
        yield row | {"exact": by_law.get(cell) if row["released"] else None}


def numbers(row: Mapping[str, Any], hardly: Container[tuple[str, str]]) -> dict[str, str]:
    """An estimate in words. hardly: as `rows.unread` gives it."""
    columns = (
        "data set: {dataset} | attack: {said} | sees: {seen} | mechanism: {mechanism} | epsilon: {epsilon:budget} | "
        "loss: {low} | plug-in: {point} | upper end: {end} | ceiling: {ceiling:proved} | "
        "correct guesses: {successes:,} of {trials:,} ({success_rate:share}) | "
        "loss at equal length: {equal_loss:proved} ({equal_trials:,}) | "
        "by posteriors: {posterior_loss:proved} to {posterior_end} | worst output: {worst_output:proved} | "
        "delta at 4 nats: {tail} | affirmed: {tpr:share}, ≥ {tpr_low:low_share} ({fpr:share}) | verdict: {overall}"
    )
    ceiling, read = row["ceiling"], (row["dataset"], row["mechanism"]) in hardly
    law = row["exact"] if math.isinf(row["upper"]) else None
    posterior = row["posterior_upper"]
    chosen = f" ({row['best_attack']})" if row["best_attack"] else ""
    words = {
        "said": f"{row['attack']}{chosen}{'' if row['validated'] else ', beyond its validated k'}",
        "seen": f"{row['sees']}{'' if row['released'] else ', not released'}",
        "low": f"{proved(row['loss'], ceiling)}{' (hardly read)' if read else ''}",
        "point": nats(row["point"], ceiling),
        "end": bounded(row["upper"], ceiling) if law is None else f"exact: {law}",
        "posterior_end": None if posterior is None else bounded(posterior, ceiling),
        "tail": tail_words(row["delta_at_4_low"], None),
    }
    return record({**row, **words}, columns)
