"""Hand-written outputs of the stages `sent` and `reconstruction`."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.pipeline.params import read
from epsilometer.studies.training.tables import RECONSTRUCTED, reconstruction_path, sent_path


def write_sent(name: str, gradients: NDArray[np.float64], parts: tuple[int, ...] | None = None) -> None:
    """Write the inner products of gradients [n, d], like stage `sent`. parts: the sizes of their parts; one by default.

    params.yaml must have the entry, whose record is written too.
    """
    sizes = parts or (gradients.shape[1],)
    every = np.split(gradients, np.cumsum(sizes)[:-1], axis=1)
    tables.write_array(np.stack([gradients @ gradients.T for gradients in every]), sent_path(name) / "gram.npy")
    about = {"size": sum(sizes), "parts": sizes, "of": read().sent[name].texts_and_model}
    tables.write_json(about, sent_path(name) / "about.json")


def write_scores(name: str, scores: dict[float, NDArray[np.float64]]) -> None:
    """Write the ROUGE-L of reconstructions by `likelihood` and by a blind guess, on batches of two texts, by level."""
    rows = [
        {"level": level, "size": 2, "attack": attack, "batch": i // 2, "row": i, "rouge_l": float(value)}
        for attack, level, values in (
            *(("likelihood", level, values) for level, values in scores.items()),
            ("blind", None, next(iter(scores.values())) / 20),
        )
        for i, value in enumerate(values)
    ]
    table = pl.DataFrame(rows, schema_overrides={"level": pl.Float64})
    missing = {name: pl.lit(None, kind) for name, kind in RECONSTRUCTED.items() if name not in table.columns}
    tables.write(
        table.with_columns(**missing).select(list(RECONSTRUCTED)), reconstruction_path(name, "texts"), RECONSTRUCTED
    )
