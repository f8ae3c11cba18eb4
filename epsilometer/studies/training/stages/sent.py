"""Stage sent@name: the texts whose gradients clients send, the server's texts, and the gradients' inner products.

The gradients themselves have millions of numbers. They are computed when an attack runs, because a malicious server
first changes the model. So this stage depends neither on noise levels nor on batch sizes.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.worth.leakage import identifiers
from epsilometer.core import tables
from epsilometer.project.paths import audited
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.runs.gram import gram, head_of, states
from epsilometer.studies.training.runs.shared_model import SharedModel
from epsilometer.studies.training.sending import ATTACKED, POOL, TEXTS, chosen, model
from epsilometer.studies.training.tables import sent_path


def main(name: str) -> None:
    """Write data/sent/<name>/texts.parquet, gram.npy [parts, n, n] of the pool, and about.json."""
    params = read_params()
    table, classes = chosen(params, name)
    folder = sent_path(name)
    shared = model(params, name, len(classes))
    shared.encode(table["text"].to_list())  # raises for texts without tokens before any work
    tables.write(_with_identifiers(params, name, table), folder / "texts.parquet", TEXTS)
    tables.write_array(_gram(params, name, shared, table.filter(use=POOL)), folder / "gram.npy")
    facts = {"classes": classes, "size": shared.size, "parts": shared.parts, "tensors": shared.names}
    tables.write_json(facts | {"of": params.sent[name].texts_and_model}, folder / "about.json")


def _gram(params: TrainingParams, name: str, shared: SharedModel, pool: pl.DataFrame) -> NDArray[np.float64]:
    """Return inner products of the pool's gradients: [1, n, n], or [m, n, n] for a draw per part."""
    ids, labels = shared.encode(pool["text"].to_list()), pool["label"].to_list()
    if not ids:
        return np.empty((1, 0, 0))
    if not params.sent[name].noise.parts:
        return gram(shared, ids, labels)[None]
    gradients = head_of(shared).gradients(states(shared, ids), np.asarray(labels))
    return np.stack([gradients.part(number).gram() for number in range(len(shared.parts))])


def _with_identifiers(params: TrainingParams, name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return the chosen texts with the identifiers of the attacked ones."""
    rows = table.filter(use=ATTACKED)["row"]
    of_rows = dict(zip(rows, identifiers(audited(params, params.sent[name].dataset)[rows]), strict=True))
    every = [of_rows[row] if use == ATTACKED else [] for use, row in table.select("use", "row").iter_rows()]
    return table.with_columns(
        kinds=pl.Series([[identifier.kind for identifier in some] for some in every], dtype=pl.List(pl.String)),
        identifiers=pl.Series([[identifier.text for identifier in some] for some in every], dtype=pl.List(pl.String)),
    ).select(list(TEXTS))
