"""The charts of a data set on the leaderboard."""

from __future__ import annotations

import polars as pl

from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.plain import CLEAN
from epsilometer.studies.leaderboard.report.picture import figure
from epsilometer.studies.leaderboard.report.section import tables
from epsilometer.studies.leaderboard.report.standing import Board, standings
from epsilometer.studies.leaderboard.tables import ANY, FIGURES, FRONTIERS, PLAIN, ROWS


def test_a_data_set_without_cells_has_tables_and_no_chart() -> None:
    figures = pl.DataFrame(schema={**FIGURES, "mechanism": pl.String, "loss": pl.Float64})
    clean = {"row": CLEAN, "figure": "task", "learner": WORDS, "texts": 10, "by_law": False, "values": [0.9, 0.8]}
    frontier = {"lengths": ANY, "one_text": 0.2, "at": [0.5, 1.0], "upper": [0.2, 1.0]}
    board = Board(
        "songs",
        standings(pl.DataFrame(schema=dict(ROWS)), figures),
        figures,
        pl.DataFrame([clean], schema=dict(PLAIN)),
        frontiers=pl.DataFrame([{name: frontier.get(name) for name in FRONTIERS}], schema=dict(FRONTIERS)),
        texts=[10, 30],
        absent=[("tem", 1.0)],
        origins={},
        prepared=None,
    )
    assert figure(board) is None
    assert [table.picture for table in tables(board)] == [None] * 4
