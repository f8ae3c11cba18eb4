"""Stage leaderboard_cells@cell: the worth (utility) of a mechanism on a data set at one average loss."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import refuse_public
from epsilometer.core import tables
from epsilometer.core.mechanism import is_control
from epsilometer.studies.leaderboard.building import build
from epsilometer.studies.leaderboard.measuring import Comparison, Parts
from epsilometer.studies.leaderboard.params import read as read_params
from epsilometer.studies.leaderboard.shared_budgets import folder_of
from epsilometer.studies.leaderboard.tables import FIGURES, ROWS, figures_path, rows_path


def main(name: str) -> None:
    """Write data/leaderboard/<cell>.parquet and data/leaderboard/<cell>.figures.parquet."""
    params = read_params()
    cell = params.leaderboard_cells[name]
    built = build(params, name)
    parts = Parts.read(cell.dataset)
    refuse_public(built, parts.rewritten.texts)
    stream = (params.audit.seed, params.audit.round, "leaderboard", cell.dataset, cell.mechanism)
    of_cell = {"dataset": cell.dataset, "mechanism": cell.mechanism, "control": is_control(built), "loss": cell.loss}
    measured = folder_of(name, cell.dataset, cell.model_dump(mode="json", exclude={"loss"}), stream)
    comparison = Comparison(parts, built, stream, measured)
    rows, figures = [], []
    for row, shown in comparison.rows(cell.loss, (min(cell.budgets), max(cell.budgets))):
        rows.append(of_cell | row)
        figures += shown
    tables.write(pl.DataFrame(rows, schema=dict(ROWS)), rows_path(name), ROWS)
    tables.write(pl.DataFrame(figures, schema=dict(FIGURES)), figures_path(name), FIGURES)
