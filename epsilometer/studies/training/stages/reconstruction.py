"""Stage reconstruction@name: measure the attacks' recovery of the texts behind clients' gradients."""

from __future__ import annotations

from itertools import product

import polars as pl

from epsilometer.core import tables
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.reconstruction import averages, bounds, measured
from epsilometer.studies.training.searching import COLUMNS, ReconstructionGame
from epsilometer.studies.training.tables import RECONSTRUCTED, RECONSTRUCTION, reconstruction_path, searched_path


def main(name: str) -> None:
    """Write data/reconstruction/<name>.parquet with averages, and <name>.texts.parquet with a row per text."""
    params = read_params()
    sent = params.sent[params.reconstruction[name].sent]
    game = ReconstructionGame(params, name)
    rows = [row for size in sent.sizes for row in game.blind(size)]
    for size, level in product(sent.sizes, sent.steps):
        for attack, batches in tables.read_json(searched_path(name, size, level)).items():
            rows += game.rows(attack, size, level, batches)
    every = measured(pl.DataFrame(rows, schema=COLUMNS), game.identifiers)
    tables.write(every, reconstruction_path(name, "texts"), RECONSTRUCTED)
    summary = [*averages(every, params.audit.alpha), *bounds(params, name)]
    tables.write(pl.DataFrame(summary, schema=dict(RECONSTRUCTION)), reconstruction_path(name), RECONSTRUCTION)
