"""Stage report: the page, its figures, and the tracked metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer import __version__
from epsilometer.core import tables
from epsilometer.project.cells import trials
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import audited, audited_texts, rewrites_path, varied_path
from epsilometer.report import origin
from epsilometer.report.examples import comparable
from epsilometer.report.figures import metrics, plot_table
from epsilometer.report.page import DATASETS, DISPUTES, EXAMPLES, INSTRUMENT, TALLIES, AuditData, Settings, build
from epsilometer.report.similarity import QUARTILES, Kept, quartiles

SHOWN = 2  # texts an example level


def main() -> None:
    """Write data/report.html, reports/figures, reports/metrics.json and reports/calibration.csv.

    And reports/audit.html, the page with where it comes from, which DVC does not track.
    """
    params = read_params()
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    audit = AuditData(
        estimates=estimates,
        claims=tables.read("data/claims.parquet", tables.CLAIMS),
        words=tables.read("data/deniability.parquet", tables.DENIABILITY),
        similarity=tables.read("data/similarity.parquet", tables.SIMILARITY),
        downstream=_downstream(params),
        outputs=tables.read("data/outputs.parquet", tables.OUTPUTS),
        estimators=tables.read("data/estimators.parquet", tables.ESTIMATORS),
        ablations=_varied("ablations", params.ablations, tables.ABLATIONS),
        kept=_kept(params),
        sweeps=_varied("sweeps", params.sweeps, tables.SWEEPS),
        first_tokens=_varied("first_tokens", params.ablations, tables.FIRST_TOKENS),
        tokens=tables.read("data/varied/tokens.parquet", tables.TOKENS),
        tallies=_tallies(params),
        disputes=_disputes(params, tables.read("data/disagreements.parquet", tables.DISAGREEMENTS)),
        target=params.utility.target,
        instrument=tables.read("data/instrument.parquet", INSTRUMENT),
        examples=_examples(params, estimates),
        datasets=pl.DataFrame([_dataset(params, name) for name in params.datasets], schema=dict(DATASETS)),
        title=params.title,
        settings=_settings(params),
        version=__version__,
        notes=params.notes,
    )
    build(origin.BODY, Path("reports/figures"), audit)
    metrics(estimates, Path("reports/metrics.json"))
    plot_table(estimates, Path("reports/calibration.csv"))
    origin.write()


def _downstream(params: Params) -> pl.DataFrame:
    """What classifiers make of clean texts, and of those of every cell that trains some."""
    parts = [
        tables.read(f"data/downstream/{name}.parquet", tables.DOWNSTREAM) for name in ("clean", *params.downstream)
    ]
    return pl.concat(parts)


def _varied(what: str, cells: Iterable[str], schema: tables.Schema) -> pl.DataFrame:
    """What was found in these cells; no rows where none are named."""
    parts = [tables.read(varied_path(what, name), schema) for name in cells]
    return pl.concat([pl.DataFrame(schema=dict(schema)), *parts])


def _settings(params: Params) -> Settings:
    return Settings(
        trials=params.trials.count,
        candidates=params.trials.candidates,
        temperature=params.trials.temperature,
        alpha=params.audit.alpha,
        seed=params.audit.seed,
        round=params.audit.round,
    )


def _dataset(params: Params, name: str) -> dict[str, Any]:
    settings = params.datasets[name]
    counts, drawn, cut = (
        json.loads(Path(f"data/{folder}/{name}.json").read_text()) for folder in ("prepared", "trials", "embeddings")
    )
    return {
        "dataset": name,
        "source": settings.source if settings.part is None else f"{settings.source} ({settings.part})",
        "public": settings.public,
        "texts": drawn["texts"],
        "duplicates_merged": counts["duplicates_merged"],
        "empty_dropped": counts["empty_dropped"],
        "unmatched_dropped": drawn["unmatched_dropped"],
        "cut": cut["cut"],
        "mean_words": audited(params, name)["words"].mean(),
        "match": None if params.match(name) == "none" else params.match(name),
        "distinct": drawn["distinct"],
        "five_commonest": drawn["five_commonest"],
    }


def _examples(params: Params, estimates: pl.DataFrame) -> pl.DataFrame:
    """The first trials of every public data set, as rewritten by mechanisms of comparable loss."""
    rows = []
    attack = next(iter(params.attacks))
    for dataset, mechanism, epsilon, loss in comparable(estimates, attack).iter_rows():
        if not params.datasets[dataset].public:
            continue
        texts, source = audited_texts(params, dataset), trials(dataset).source
        made = tables.read(rewrites_path(f"{dataset}-{mechanism}", epsilon), tables.REWRITES)
        for trial, rewrite in made.filter(pl.col("trial") < SHOWN).sort("trial").select("trial", "text").iter_rows():
            rows.append((dataset, mechanism, epsilon, loss, texts[source[trial]], rewrite))
    return pl.DataFrame(rows, schema=dict(EXAMPLES), orient="row")


def _kept(params: Params) -> Kept:
    """What the rewrites keep; at the quartiles of public data sets with the texts."""
    each = tables.read("data/similarities.parquet", tables.SIMILARITIES)
    public = [name for name, dataset in params.datasets.items() if dataset.public]
    rows = []
    for (dataset, mechanism, epsilon), part in (
        quartiles(each).filter(pl.col("dataset").is_in(public)).group_by("dataset", "mechanism", "epsilon")
    ):
        texts, source = audited_texts(params, dataset), trials(dataset).source
        made = tables.read(rewrites_path(f"{dataset}-{mechanism}", epsilon), tables.REWRITES)
        written = dict(made.select("trial", "text").iter_rows())
        rows += [
            (*row[:3], quarter, trial, texts[source[trial]], written[trial])
            for *row, quarter, trial in part.iter_rows()
        ]
    return Kept(
        summary=tables.read("data/similarity.parquet", tables.SIMILARITY),
        each=each,
        leakage=tables.read("data/leakage.parquet", tables.LEAKAGE),
        quartiles=pl.DataFrame(rows, schema=dict(QUARTILES), orient="row"),
        alpha=params.audit.alpha,
    )


def _tallies(params: Params) -> pl.DataFrame:
    """What attacks counted while guessing, in all cells."""
    rows = [
        {"attack": row["attack"], "what": what, "count": float(count)}
        for name in params.cells
        for row in json.loads(Path(f"data/guesses/{name}.json").read_text())
        for what, count in row.items()
        if what not in ("attack", "epsilon")
    ]
    table = pl.DataFrame(rows, schema=dict(TALLIES))
    return table.group_by("attack", "what", maintain_order=True).agg(pl.col("count").sum())


def _disputes(params: Params, found: pl.DataFrame) -> pl.DataFrame:
    """Of every public data set and two attacks the cell with most disagreements, and one trial's texts."""
    public = [name for name, dataset in params.datasets.items() if dataset.public]
    most = found.filter(pl.col("dataset").is_in(public)).sort("trials", descending=True, maintain_order=True)
    rows = []
    for row in most.unique(["dataset", "right", "wrong"], keep="first", maintain_order=True).to_dicts():
        trial, drawn, texts = row.pop("trial"), trials(row["dataset"]), audited_texts(params, row["dataset"])
        made = tables.read(rewrites_path(f"{row['dataset']}-{row['mechanism']}", row["epsilon"]), tables.REWRITES)
        source = drawn.source[trial]
        other = next(i for i in drawn.candidates[trial] if i != source)
        rewrite = made.row(by_predicate=pl.col("trial") == trial, named=True)["text"]
        rows.append(row | {"source": texts[source], "rewrite": rewrite, "other": texts[other]})
    return pl.DataFrame(rows, schema=dict(DISPUTES))
