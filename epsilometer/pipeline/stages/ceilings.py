"""Stage ceilings: what no mechanism can exceed where trials are of sets, and how much of it each cell keeps.

Worth is taken on all trials of such a data set, as is the loss: by the cell's law, or by its strongest attack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.frontier import TextSet
from epsilometer.auditing.ceilings.share import Sets, best_text, lost, pure_claim, row
from epsilometer.auditing.schemas import CEILINGS, ESTIMATES, EXACT, POSSIBLE, SETS
from epsilometer.core import tables
from epsilometer.core.guarantees import stored
from epsilometer.models.encoder import Encoder
from epsilometer.project.cells import rewrites, trials
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import audited_texts, ceilings_path, exact_path, possible_path, prepared, sets_path
from epsilometer.utility.intervals import mean_interval
from epsilometer.utility.similarity import metric

_PUBLIC = 200  # texts of splits that are not audited, among which the best single text is looked for


def main() -> None:
    """Write data/ceilings.parquet and data/possible.parquet; without rows where no trials are of sets."""
    params = read_params()
    curves, rows = [], []
    for dataset in (name for name, entry in params.datasets.items() if entry.sets and name in params.audited):
        sets = _sets(params, dataset)
        curves += [{"dataset": dataset} | point for point in sets.curve()]
        rows += list(_rows(params, dataset, sets))
    tables.write(pl.DataFrame(curves, schema=dict(CEILINGS)), ceilings_path(), CEILINGS)
    tables.write(pl.DataFrame(rows, schema=dict(POSSIBLE)), possible_path(), POSSIBLE)


def _sets(params: Params, dataset: str) -> Sets:
    vectors = _unit(np.load(f"data/embeddings/{dataset}.npy"))
    numbers = tables.read(sets_path(dataset), SETS).sort("set")["texts"].to_list()
    served = [TextSet.of_all_pairs(vectors[list(texts)]) for texts in numbers]
    others = prepared(dataset).filter(pl.col("split") != params.datasets[dataset].use)["text"].head(_PUBLIC).to_list()
    encoder = Encoder(params.embedding.model, params.embedding.precision)
    public = _unit(encoder.encode(others)) if others else np.empty((0, vectors.shape[1]))
    return Sets(served, best_text(public, served))


def _rows(params: Params, dataset: str, sets: Sets) -> Iterator[dict[str, Any]]:
    texts, source = audited_texts(params, dataset), trials(dataset).source
    cosine = metric("cosine", params.embedding.model_dump())
    estimates = tables.read("data/estimates.parquet", ESTIMATES)
    for name, cell in params.cells.items():
        if cell.dataset != dataset:
            continue
        exact = tables.read(exact_path(name), EXACT)
        for epsilon in cell.budgets:
            written, claims = rewrites(name, epsilon)
            worths = cosine.measure([texts[i] for i in source], written.texts)
            named = {"dataset": dataset, "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
            at = tables.at_epsilon(estimates.filter(dataset=dataset, mechanism=cell.mechanism), epsilon)
            loss = lost(tables.at_epsilon(exact, epsilon), at)
            if loss is None:
                continue
            counts = {"sets": len(sets.served), "trials": len(source)}
            _, low, high = mean_interval(worths, source, params.audit.alpha)
            claimed = pure_claim(claims.to_numpy(), at)
            columns = row(sets, worths, loss, pure_epsilon=claimed, alpha=params.audit.alpha)
            yield named | counts | {"worth_low": low, "worth_high": high} | columns


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rows of length 1, whatever was rounded; a row of zeros stays."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(float).tiny))
