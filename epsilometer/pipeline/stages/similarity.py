"""Stage similarity: the similarity of rewrites to their texts, and the identifiers that survive in rewrites.

Similarity is measured on a cell's first trials (on all trials of sets), survival on all trials.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.leakage import Identifier, identifiers, leakage
from epsilometer.auditing.worth.releases import STANDING, HasPublicReleases, check_released, standing
from epsilometer.auditing.worth.similarity import measure, metric, say_unread
from epsilometer.cells import encoded
from epsilometer.cells.params import TextsParams, read
from epsilometer.cells.reading import mechanism, rewrites, trials
from epsilometer.cells.tables import SIMILARITIES, SIMILARITY
from epsilometer.core import tables
from epsilometer.metrics.bleu import corpus
from epsilometer.metrics.cosine import Cosine
from epsilometer.project.paths import audited, audited_texts
from epsilometer.runtime.progress import track

CELL = ("dataset", "mechanism", "epsilon")


def main() -> None:
    """Write data/similarity.parquet, data/similarities.parquet, data/leakage.parquet and data/standing.parquet."""
    params = read()
    alpha = params.audit.alpha
    pairs, cosine = _pairs(params), metric("cosine", params.embedding.model_dump())
    originals, rewritten = pairs["original"].to_list(), pairs["rewrite"].to_list()
    assert isinstance(cosine, Cosine)
    cosine.remembered.update(encoded.of_cells(params.cells, rewritten))
    metrics = {"cosine": cosine} | {name: metric(name, settings) for name, settings in params.utility.metrics.items()}
    values = measure(originals, rewritten, metrics)
    say_unread(originals, rewritten, metrics)
    rows = []
    for cell, part in pl.concat([pairs, values], how="horizontal").group_by(CELL, maintain_order=True):
        whole = corpus(part["original"].to_list(), part["rewrite"].to_list()) if "bleu" in metrics else None
        rows.append((*cell, len(part), *mean_interval(part["cosine"], part["source"], alpha), whole))
    table = pl.DataFrame(rows, schema=dict(SIMILARITY), orient="row")
    tables.write(table, "data/similarity.parquet", SIMILARITY)
    each = pl.concat([pairs.drop("original", "rewrite"), values], how="horizontal")
    long = each.unpivot(list(metrics), index=[*CELL, "trial", "source"], variable_name="metric")
    tables.write(long, "data/similarities.parquet", SIMILARITIES)
    tables.write(pl.concat(_leaked(params), how="vertical"), "data/leakage.parquet", LEAKAGE)
    tables.write(pl.concat(_standing(params), how="vertical"), "data/standing.parquet", STANDING)


def _pairs(params: TextsParams) -> pl.DataFrame:
    """Return a row per cell, epsilon and trial: the text and its rewrite."""
    parts = []
    for name, cell in params.cells.items():
        texts, source = audited_texts(params, cell.dataset), trials(cell.dataset).source
        if params.datasets[cell.dataset].sets is None:  # with sets, worth and loss use the same trials
            source = source[: params.utility.texts]
        for epsilon in cell.budgets:
            rewritten = rewrites(name, epsilon)[0].texts[: len(source)]
            rows = {
                "trial": np.arange(len(source)),
                "source": source.astype(np.int64),
                "original": [texts[i] for i in source],
                "rewrite": list(rewritten),
            }
            named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon}
            parts.append(pl.DataFrame(rows).select(*(pl.lit(v).alias(k) for k, v in named.items()), *rows))
    return pl.concat(parts)


def _leaked(params: TextsParams) -> Iterator[pl.DataFrame]:
    """Yield the rows of LEAKAGE of each cell and epsilon; none if a data set's trials have no identifiers."""
    yield pl.DataFrame(schema=dict(LEAKAGE))
    of_data_set: dict[str, list[list[Identifier]]] = {}
    for name, cell in track(params.cells.items(), len(params.cells), "leakage"):
        source = trials(cell.dataset).source
        if cell.dataset not in of_data_set:
            used, slots = np.unique(source, return_inverse=True)
            of_texts = identifiers(audited(params, cell.dataset)[used])
            of_data_set[cell.dataset] = [of_texts[slot] for slot in slots]
        for epsilon in cell.budgets:
            counted = leakage(of_data_set[cell.dataset], rewrites(name, epsilon)[0].texts, source, params.audit.alpha)
            named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon}
            yield counted.select(*(pl.lit(v).alias(k) for k, v in named.items()), *counted.columns)


def _standing(params: TextsParams) -> Iterator[pl.DataFrame]:
    """Yield the rows of STANDING, over all audited texts, of each cell whose mechanism releases only public texts."""
    yield pl.DataFrame(schema=dict(STANDING))
    for name, cell in params.cells.items():
        built = mechanism(params, name)
        if isinstance(built, HasPublicReleases):
            check_released(built, (text for epsilon in cell.budgets for text in rewrites(name, epsilon)[0].texts))
            counted = standing(identifiers(audited(params, cell.dataset)), built.public_releases)
            named = {"dataset": cell.dataset, "mechanism": cell.mechanism}
            yield counted.select(*(pl.lit(v).alias(k) for k, v in named.items()), *counted.columns)
