"""The texts that candidates are drawn from, in groups. All ablations and sweeps of a cell draw from these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.text_audit import Pool
from epsilometer.cells.params import TextsParams
from epsilometer.core.attack import Embedded
from epsilometer.project.paths import audited


def pool(params: TextsParams, dataset: str, match: str | None = None) -> tuple[Pool, NDArray[np.float32]]:
    """Return a data set's audited texts and their embeddings.

    match: "words" (texts with equal numbers of words form a group) or "none"; None: the data set's own setting.
    """
    table, vectors = audited(params, dataset), np.load(f"data/embeddings/{dataset}.npy")
    groups = table["words"].to_numpy() if (match or params.match(dataset)) == "words" else None
    embedded = Embedded(params.embedding.model, params.embedding.precision, vectors)
    return Pool(table["text"].to_list(), embedded, groups), vectors
