"""Charts of worth and of classifiers' F1 against the loss, with the ceiling of worth. Losses are in nats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.frontier import success_of
from epsilometer.auditing.ceilings.share import BY_LAW, NATS
from epsilometer.report.figures import MUTED, Figure, by_name, specify, styles
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.plain import CLEAN, PUBLIC_ONLY
from epsilometer.studies.leaderboard.report.standing import Board
from epsilometer.studies.leaderboard.tables import ANY, EQUAL, TAIL

_SIZE = {"width": 380, "height": 300}
_MOST = 4.5  # nats: the largest loss on the axis

Points = list[dict[str, Any]]


def figure(board: Board) -> Figure | None:
    """Return the charts of a data set, with a point per mechanism and loss, at the second budget; None without points.

    The charts show sets of texts of equal length if the data set has such sets, otherwise sets of any length.
    """
    lengths = EQUAL if EQUAL in board.frontiers["lengths"] else ANY
    if not (points := _points(board, lengths)):
        return None
    names = sorted({row["mechanism"] for row in points})
    controls = board.rows.filter("control")["mechanism"].unique().to_list()
    colour, shape = by_name(styles(names), names, controls)
    (frontier,) = board.frontiers.filter(lengths=lengths).to_dicts()
    datasets = {
        "points": points,
        "ceiling": _ceiling(frontier),
        "levels kept": [{"value": frontier["one_text"], "what": "one text for all"}],
        "levels taught": _levels(board),
    }
    worth = _layers("kept", "mean cosine of text and rewrite", colour, shape)
    taught = _layers("taught", f"macro F1 of the task, by words, {board.texts[0]:,} texts", colour, shape)
    impossible = alt.Chart(alt.NamedData("ceiling")).transform_calculate(top="1")
    shaded = impossible.mark_area(color=MUTED, opacity=0.15).encode(
        alt.X("average:Q"), alt.Y("value:Q"), alt.Y2("top:Q")
    )
    words = (
        f"Mean cosine and macro F1 against the average loss for {len(names)} mechanisms on {board.dataset}. Shaded: "
        "impossible for any mechanism. Dashed: clean texts, and public texts alone. Hollow: the loss is a bound or "
        "an estimate."
    )
    chart = alt.hconcat(*(alt.layer(*layers).properties(**_SIZE) for layers in ([shaded, *worth], taught)))
    return Figure(f"leaderboard-{board.dataset}", words, specify(chart, datasets))


def _points(board: Board, lengths: str) -> Points:
    shown = board.rows.filter(pl.col("epsilon").is_not_null(), lengths=lengths, budget=TAIL)
    return [
        {
            "mechanism": row["mechanism"],
            "average": row["average"],
            "by_law": row["by"] == BY_LAW,
            "kept": row["cosine"],
            "taught": float(np.mean(board.values(row, "task", WORDS) or [0])),
        }
        for row in shown.to_dicts()
    ]


def _ceiling(frontier: Mapping[str, Any]) -> Points:
    values = np.interp(success_of(NATS), frontier["at"], frontier["upper"])
    points = zip(NATS.tolist(), values.tolist(), strict=True)
    return [{"average": nats, "value": value} for nats, value in points if nats <= _MOST]


def _levels(board: Board) -> Points:
    """Return the F1 of classifiers trained on clean texts and on public exemplars, at the smallest numbers of texts."""
    task = board.plain.filter(figure="task", learner=WORDS).sort("texts")
    rows = {"clean texts": CLEAN, "public exemplars, labelled": f"{PUBLIC_ONLY}, exemplars"}
    fewest = {what: task.filter(row=row)["values"].head(1).to_list() for what, row in rows.items()}
    return [{"value": float(np.mean(values[0])), "what": what} for what, values in fewest.items() if values]


def _layers(column: str, title: str, colour: alt.Color, shape: alt.Shape) -> list[alt.Chart]:
    """Return the layers of a chart: horizontal levels, their names, and points of mechanisms.

    column: the field with a point's height; title: the title of the vertical axis.
    """
    x = alt.X("average:Q", title="average loss, nats", scale=alt.Scale(domain=[0, _MOST], nice=False))
    y, value = (alt.Y(f"{name}:Q", title=title, scale=alt.Scale(domain=[0, 1])) for name in (column, "value"))
    level = alt.Chart(alt.NamedData(f"levels {column}"))
    points = alt.Chart(alt.NamedData("points"))
    by_law = points.transform_filter("datum.by_law").mark_point(filled=True, size=70)
    others = points.transform_filter("!datum.by_law").mark_point(size=60)
    named = level.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11)
    return [
        level.mark_rule(color=MUTED, strokeDash=[3, 3]).encode(value),
        named.encode(value, x=alt.value("width"), text="what:N"),
        by_law.encode(x, y, color=colour, shape=shape),
        others.encode(x, y, color=colour, shape=shape),
    ]
