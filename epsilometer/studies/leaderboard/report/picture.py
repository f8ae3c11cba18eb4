"""Worth and what classifiers learn against the loss, beside the ceiling. Losses are in nats."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.frontier import success_of
from epsilometer.auditing.ceilings.share import NATS
from epsilometer.report.figures import MUTED, Figure, by_name, specify, styles
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.plain import CLEAN, PUBLIC_ONLY
from epsilometer.studies.leaderboard.report.standing import Board
from epsilometer.studies.leaderboard.tables import ANY, EQUAL, TAIL

_SIZE = {"width": 380, "height": 300}
_MOST = 4.5  # nats


def figure(board: Board) -> Figure:
    """A point a mechanism and loss, at the second budget, over sets of texts of equal length where there are any."""
    lengths = EQUAL if EQUAL in board.frontiers["lengths"] else ANY
    points = _points(board, lengths)
    names = sorted({row["mechanism"] for row in points})
    controls = board.rows.filter("control")["mechanism"].unique().to_list()
    colour, shape = by_name(styles(names), names, controls)
    (frontier,) = board.frontiers.filter(lengths=lengths).to_dicts()
    lines = _lines(board, frontier)
    worth = _panel("kept", "mean cosine of text and rewrite", "ceiling", colour, shape=shape)
    taught = _panel("taught", "macro F1 of the task, words, from the fewer texts", "levels", colour, shape=shape)
    words = (
        f"Mean cosine and macro F1 against the average loss for {len(names)} mechanisms on {board.dataset}, beside the "
        "ceiling, clean texts and public texts alone."
    )
    return Figure(
        f"leaderboard-{board.dataset}", words, specify(alt.hconcat(worth, taught), {"points": points, **lines})
    )


def _points(board: Board, lengths: str) -> list[dict[str, Any]]:
    shown = board.rows.filter(pl.col("epsilon").is_not_null(), lengths=lengths, budget=TAIL)
    return [
        {
            "mechanism": row["mechanism"],
            "average": row["average"],
            "kept": row["cosine"],
            "taught": float(np.mean(board.values(row, "task", WORDS) or [0])),
        }
        for row in shown.to_dicts()
    ]


def _lines(board: Board, frontier: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    ceiling = [
        {"average": float(nats), "value": float(value), "what": "ceiling"}
        for nats, value in zip(NATS, np.interp(success_of(NATS), frontier["at"], frontier["upper"]), strict=True)
        if nats <= _MOST
    ]
    fixed = [{"average": nats, "value": frontier["one_text"], "what": "one text for all"} for nats in (0.0, _MOST)]
    task = board.plain.filter(figure="task", learner=WORDS)
    levels = []
    for row in (CLEAN, f"{PUBLIC_ONLY}, all", f"{PUBLIC_ONLY}, exemplars"):
        some = task.filter(row=row).sort("texts")
        if len(some):
            value = float(some["values"][0].mean())
            levels += [{"average": nats, "value": value, "what": row} for nats in (0.0, _MOST)]
    return {"ceiling": ceiling + fixed, "levels": levels}


def _panel(
    column: str, title: str, lines: str, colour: alt.Color, *, shape: alt.Shape
) -> alt.LayerChart | alt.FacetChart:
    x = alt.X("average:Q", title="average loss, nats", scale=alt.Scale(domain=[0, _MOST]))
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(domain=[0, 1]))
    dashes = alt.StrokeDash("what:N", legend=alt.Legend(title=None))
    line = alt.Chart(alt.NamedData(lines)).mark_line(color=MUTED).encode(x=x, y=alt.Y("value:Q"), strokeDash=dashes)
    marks = (
        alt.Chart(alt.NamedData("points")).mark_point(filled=True, size=70).encode(x=x, y=y, color=colour, shape=shape)
    )
    return alt.layer(line, marks).properties(**_SIZE)
