"""The known-loss check: an audit of two-text randomised response, whose loss is known. Losses are in nats."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from epsilometer.core.tables import Schema
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import COLOURS, INK, Figure, Specification, specify
from epsilometer.report.rows import within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.wording import inflected, listed, loss_interval

PATH = "data/instrument.parquet"
INSTRUMENT: Schema = {
    "epsilon": pl.Float64,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}


def section(results: TextResults) -> Section | None:
    """Return the audit's figures compared with known losses; None if the table has no rows."""
    table = results.table(PATH, INSTRUMENT)
    if table.is_empty():
        return None
    losses = Figure(
        "instrument",
        "Measured loss against the true loss",
        figure(table.sort("epsilon")),
        caption="The loss of randomised response on two texts is exactly ε (black line); the blue band begins at 0.85 "
        "ε. Crossbar: the reported loss; bar: up to the upper bound; dot: the plug-in value.",
    )
    return Section(
        "check", "Check", "Does the audit find a known loss?", [sentence(table)], blocks=[losses], folded=True
    )


def sentence(table: pl.DataFrame) -> str:
    """Return a sentence that states if all known losses were found."""
    if wrong := fault(table):
        return f"Look here first. {wrong}"
    places = inflected(len(table), "the one known loss", f"all {len(table)} known losses")
    return (
        f"Passed: at {places} the reported loss is at most the true loss and at least 0.85 of it, "
        "so in this check the audit overstates nothing and misses little."
    )


def fault(table: pl.DataFrame) -> str:
    """Return a sentence on the known losses at which the audit erred; empty if there are none."""
    above = table.filter(pl.col("loss") > pl.col("epsilon"))["epsilon"].sort().to_list()
    below = table.filter(pl.col("loss") < 0.85 * pl.col("epsilon"))["epsilon"].sort().to_list()
    parts = []
    if above:
        parts.append(f"reported more than the truth at {listed([f'{e:g}' for e in above])} nats")
    if below:
        parts.append(f"reported less than 85 % of the truth at {listed([f'{e:g}' for e in below])} nats")
    return f"The audit {' and '.join(parts)}." if parts else ""


def figure(table: pl.DataFrame) -> Specification:
    """Return the figure of measured against true losses of two-text randomised response. The true loss is epsilon.

    The left panel has losses. The right panel has shares of the true loss, so that intervals are visible.
    table: columns epsilon, trials, loss, point, upper and ceiling, with one row per budget.
    """
    datasets = _datasets(table)
    rows = datasets["measured"]
    end = datasets["truth"][-1]["epsilon"]
    x = alt.X(
        "epsilon:Q",
        title="true loss: ε of randomised response (nats)",
        scale=alt.Scale(domain=[0, end]),
        axis=alt.Axis(tickCount=6, format="~g"),
    )
    tooltip = [
        alt.Tooltip("epsilon:Q", title="true loss", format="~g"),
        alt.Tooltip("interval:N", title="loss to upper end"),
        alt.Tooltip("trials:Q", format=","),
    ]

    def panel(suffix: str, title: str, domain: list[float], number: str) -> alt.LayerChart | alt.FacetChart:
        def y(field: str) -> alt.Y:
            scale, axis = alt.Scale(domain=domain, nice=False, zero=False), alt.Axis(tickCount=6, format=number)
            return alt.Y(f"{field}{suffix}:Q", title=title, scale=scale, axis=axis)

        truth, measured, text = (alt.Chart(alt.NamedData(name)) for name in ("truth", "measured", "labels"))
        colour = COLOURS[1]
        loss, point, upper = y("loss"), y("point"), alt.Y2(f"upper{suffix}")
        return alt.layer(
            truth.mark_area(color="#cfe3f1").encode(x, y("least"), alt.Y2(f"truth{suffix}")),
            truth.mark_line(color=INK, strokeWidth=1.2).encode(x, y("truth")),
            text.mark_text(align="right", baseline="bottom", dx=-6, dy=-2, color=INK, fontSize=12).encode(
                x, y("truth"), text="text:N"
            ),
            measured.mark_rule(strokeWidth=2.5, color=colour).encode(x, loss, upper, tooltip=tooltip),
            measured.mark_tick(thickness=2.5, size=14, orient="horizontal", color=colour).encode(
                x, loss, tooltip=tooltip
            ),
            measured.mark_point(filled=True, size=36, opacity=1, color=colour).encode(x, point, tooltip=tooltip),
        ).properties(width=450, height=260)

    top = 1.04 * max(end, *(row["upper"] for row in rows))
    low = 0.95 * min(0.85, *(row["loss_share"] for row in rows))
    high = 1.02 * max(1.0, *(row["upper_share"] for row in rows))
    chart = alt.hconcat(
        panel("", "measured loss (nats)", [0, top], "~g"),
        panel("_share", "measured loss, share of the truth", [low, high], ".0%"),
        spacing=60,
    )
    return specify(chart, datasets)


def _datasets(table: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return the figure's data: the measurements, the ends of the line of true losses and its band, and a label."""
    rows = [
        {
            **row,
            **{f"{name}_share": row[name] / row["epsilon"] for name in ("loss", "point", "upper")},
            "interval": loss_interval(full),
        }
        for row, full in zip(within_ceiling(table).to_dicts(), table.to_dicts(), strict=True)
    ]
    end = 1.06 * max(row["epsilon"] for row in rows)
    truth = [{"epsilon": e, "truth": e, "least": 0.85 * e, "truth_share": 1, "least_share": 0.85} for e in (0.0, end)]
    edges = sorted([0.0, *(row["epsilon"] for row in rows)])
    gap = max(pairwise(edges), key=lambda ends: ends[1] - ends[0])
    label = sum(gap) / 2  # far from the measurements
    labels = [{"epsilon": label, "truth": label, "truth_share": 1, "text": "the truth"}]
    return {"truth": truth, "measured": rows, "labels": labels}
