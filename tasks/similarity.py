"""Stage similarity: how much of the texts the rewrites keep, for the first trials of every cell and epsilon.

usage: python -m tasks.similarity
"""

from __future__ import annotations

import numpy as np
import polars as pl

from epsilometer import tables
from epsilometer.language.encoder import Encoder
from epsilometer.params import read
from epsilometer.progress import track
from epsilometer.utility.similarity import summary, surface
from tasks.cells import rewrites, trials
from tasks.entry import run
from tasks.files import audited_texts


def main() -> None:
    """Write data/similarity.parquet."""
    params = read()
    encoder = Encoder(params.embedding.model, params.embedding.precision)
    texts = {name: audited_texts(params, name) for name in params.datasets}
    known = {name: np.load(f"data/embeddings/{name}.npy") for name in params.datasets}
    rows = []
    for name, cell in track(params.cells.items(), len(params.cells), "similarity"):
        source = trials(cell.dataset).source[: params.utility.texts]
        for epsilon in cell.epsilons:
            made = rewrites(name, epsilon)[0].texts[: len(source)]
            cosine = np.einsum("nd,nd->n", encoder.encode(made), known[cell.dataset][source]).astype(np.float64)
            values = {"cosine": cosine} | surface([texts[cell.dataset][i] for i in source], made)
            named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon, "texts": len(source)}
            rows.append(summary(values, params.audit.alpha).with_columns(**{k: pl.lit(v) for k, v in named.items()}))
    table = pl.concat(rows).select(list(tables.SIMILARITY)).cast(dict(tables.SIMILARITY))  # type: ignore[arg-type]
    tables.write(table, "data/similarity.parquet", tables.SIMILARITY)


if __name__ == "__main__":
    run(main)
