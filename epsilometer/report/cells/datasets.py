"""The data sets of an audit: the sources of their texts, and the numbers of texts that were left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from epsilometer.cells.params import TextsParams
from epsilometer.report.cells.results import TextResults
from epsilometer.report.table import records
from epsilometer.report.wording import listed


def datasets(results: TextResults) -> pl.DataFrame:
    """Return a row per data set: the source of its texts, and the numbers of texts left out and of distractors.

    match: the property that the candidates of a trial share, null for none; distinct: the number of different texts
    among distractors; five_commonest: the share of distractor slots that the five most-used distractors fill.
    """
    return pl.DataFrame([_dataset(results, name) for name in results.params.datasets])


def _dataset(results: TextResults, name: str) -> dict[str, Any]:
    settings, match = results.params.datasets[name], results.params.match(name)
    prepared, trials, embeddings = (
        results.record(f"data/{folder}/{name}.json") for folder in ("prepared", "trials", "embeddings")
    )
    return {
        "dataset": name,
        "source": settings.source if settings.part is None else f"{settings.source} ({settings.part})",
        "public": settings.public,
        "texts": trials["texts"],
        "duplicates_merged": prepared["duplicates_merged"],
        "empty_dropped": prepared["empty_dropped"],
        "unmatched_dropped": trials["unmatched_dropped"],
        "cut": embeddings["cut"],
        "mean_words": results.audited(name)["words"].mean(),
        "match": None if match == "none" else match,
        "distinct": trials["distinct"],
        "five_commonest": trials["five_commonest"],
    }


def settings(results: TextResults) -> dict[str, str]:
    """Return the settings that trials were sampled with, by name."""
    trials = results.params.trials
    numbers = {"trials": f"{trials.count:,}", "candidates k": f"{trials.candidates}"}
    return numbers | {"temperature λ": f"{trials.temperature:,g}"}


def rows(results: TextResults) -> list[dict[str, str]]:
    """Return `datasets` as rows of the report's table."""
    columns = (
        "data set: {dataset} | source: {source} | public: {yes} | texts: {texts:,} | "
        "duplicates merged: {duplicates_merged:,} | empty dropped: {empty_dropped:,} | "
        "unmatched dropped: {unmatched_dropped:,} | cut: {cut:,} | mean words: {mean_words:.1f} | matched by: {match} "
        "| distinct distractors: {distinct:,} | five commonest: {five_commonest:share}"
    )
    public = pl.when("public").then(pl.lit("yes")).otherwise(pl.lit("no"))
    return records(datasets(results).with_columns(yes=public), columns)


def sentence(params: TextsParams, names: Iterable[str]) -> str:
    """Describe the data sets and settings of the study's tables in a paragraph. names: the data sets studied."""
    named = ", ".join(
        name if params.match(name) == "none" else f"{name} (candidates matched by {params.match(name)})"
        for name in names
    )
    trials, audit = params.trials, params.audit
    return (
        f"Data sets: {named}. T = {trials.count:,}, k = {trials.candidates}, lambda = {trials.temperature:g}, "
        f"alpha = {audit.alpha:g}, seed {audit.seed}, round {audit.round}."
    )


def audited(results: TextResults, datasets: Iterable[str]) -> str:
    """Return a sentence on audited texts (real, own or generated). Generated texts prove nothing about real texts."""
    named: dict[str, list[str]] = {}
    for name in dict.fromkeys(datasets):
        source = results.params.datasets[name].source
        # A .json file is the pin of a published data set.
        kind = (
            "Generated texts"
            if source.endswith(".py")
            else "Real texts"
            if source.endswith(".json")
            else "Texts of your own"
        )
        named.setdefault(kind, []).append(f"{results.record(f'data/trials/{name}.json')['texts']:,} of {name}")
    said = [f"{kind}: {listed(names)}." for kind, names in named.items()]
    return " ".join([*said, *(["A program wrote them: **this is a demonstration**."] * ("Generated texts" in named))])
