"""Stage ceilings: the largest worth that any mechanism can have at each loss, and each cell's share of this ceiling.

Only data sets with trials of sets have ceilings: in such a trial, the pair of texts is drawn from a set of texts
(`auditing.ceilings.set_trials`). A cell's worth (from stage `similarity`) and its loss (by the mechanism's law or the
strongest attack) come from the same trials.
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
from epsilometer.cells.params import TextsParams
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import rewrites
from epsilometer.cells.tables import (
    SIMILARITIES,
    SIMILARITY,
    ceilings_path,
    exact_path,
    possible_path,
    sets_path,
)
from epsilometer.core import tables
from epsilometer.core.guarantees import stored
from epsilometer.corpora.parts import PUBLIC
from epsilometer.project.paths import prepared

_PUBLIC = 200  # maximum number of public texts; the best of them, given to everybody, has a share of the possible of 0


def main() -> None:
    """Write data/ceilings.parquet and data/possible.parquet; without rows if no trials are of sets."""
    params = read_params()
    curves, rows = [], []
    for dataset in (name for name, entry in params.datasets.items() if entry.sets and name in params.audited):
        sets = _sets(params, dataset)
        curves += [{"dataset": dataset} | point for point in sets.curve()]
        rows += list(_rows(params, dataset, sets))
    tables.write(pl.DataFrame(curves, schema=dict(CEILINGS)), ceilings_path(), CEILINGS)
    tables.write(pl.DataFrame(rows, schema=dict(POSSIBLE)), possible_path(), POSSIBLE)


def _sets(params: TextsParams, dataset: str) -> Sets:
    from epsilometer.models.encoder import Encoder  # loading takes a second, and most audits do not need it

    vectors = _unit(np.load(f"data/embeddings/{dataset}.npy"))
    numbers = tables.read(sets_path(dataset), SETS).sort("set")["texts"].to_list()
    served = [TextSet.of_all_pairs(vectors[list(texts)]) for texts in numbers]
    others = _public(params, dataset)
    encoder = Encoder(params.embedding.model, params.embedding.precision)
    public = _unit(encoder.encode(others)) if others else np.empty((0, vectors.shape[1]))
    return Sets(served, best_text(public, served))


def _public(params: TextsParams, dataset: str) -> list[str]:
    """Return texts of the public part or, if there is none, of splits that are not audited."""
    table, settings = prepared(dataset), params.datasets[dataset]
    is_public = pl.col("split") != settings.use if settings.public_part is None else pl.col("split") == PUBLIC
    return table.filter(is_public)["text"].head(_PUBLIC).to_list()


def _rows(params: TextsParams, dataset: str, sets: Sets) -> Iterator[dict[str, Any]]:
    estimates = tables.read("data/estimates.parquet", ESTIMATES)
    means = tables.read("data/similarity.parquet", SIMILARITY)
    cosines = tables.read("data/similarities.parquet", SIMILARITIES).filter(dataset=dataset, metric="cosine")
    for name, cell in params.cells.items():
        if cell.dataset != dataset:
            continue
        exact = tables.read(exact_path(name), EXACT)
        for epsilon in cell.budgets:
            named = {"dataset": dataset, "mechanism": cell.mechanism}
            at, mean, each = (
                tables.at_epsilon(table.filter(**named), epsilon) for table in (estimates, means, cosines)
            )
            if (loss := lost(tables.at_epsilon(exact, epsilon), at)) is None:
                continue
            _, claims = rewrites(name, epsilon)
            worths, claimed = each.sort("trial")["value"].to_numpy(), pure_claim(claims.to_numpy(), at)
            interval = {end: mean[f"cosine_{end}"].item() for end in ("low", "high")}
            yield {
                **named,
                "epsilon": stored(epsilon),
                "sets": len(sets.served),
                **{f"worth_{end}": value for end, value in interval.items()},
                **row(sets, worths, loss, pure_epsilon=claimed, alpha=params.audit.alpha),
            }


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the rows rescaled to length 1; a row of zeros stays."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(float).tiny))
