"""The effect of a mechanism's settings on utility and loss, when one setting is varied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.schemas import SWEEPS
from epsilometer.cells.tables import varied_path
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import COLOURS, WIDTH, Figure, Specification, joined, styles
from epsilometer.report.rows import within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import budget, loss_between

MEASURES = {"cosine": "cosine", "bertscore": "BERTScore", "point": "loss, embedding attack (nats)"}
_ENDS = {"cosine": ("cosine_low", "cosine_high"), "bertscore": ("bertscore_low", "bertscore_high")}


def section(results: TextResults) -> Section | None:
    """Return utility and loss against the value of each varied setting; None without such settings."""
    table = results.tables([varied_path("sweeps", cell) for cell in results.params.sweeps], SWEEPS)
    if table.is_empty():
        return None
    swept = Figure(
        "sweeps",
        "Utility and loss when one setting of a mechanism is varied",
        figure(table, results.estimates["mechanism"]),
        caption="All values of a setting have the same candidate sets, targets and noise. Dots: mean similarity to "
        "the text, and plug-in loss by the embedding attack; bars: intervals.",
    )
    return Section("sweeps", "Sweeps", "What a mechanism's settings do", blocks=[swept, varied(table)], folded=True)


def varied(sweeps: pl.DataFrame) -> Table:
    """Return a table of cosine and loss by the embedding attack when one setting of a mechanism is varied."""
    columns = (
        "data set: {dataset} | mechanism: {mechanism} | setting: {setting} | value: {value:number} | "
        "cosine: {cosine:.3f} ({cosine_low:.3f} to {cosine_high:.3f}) | loss: {interval}"
    )
    rows = [{**row, "interval": loss_between(row)} for row in sweeps.to_dicts()]
    caption = "Losses are by the embedding attack."
    return Table("One setting varied", caption, records(rows, columns), folded=True)


def figure(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Return utility and loss against the value of one setting: a row of panels per setting, a panel per measure.

    table: schema `SWEEPS`, in any order. mechanisms: all mechanisms of the audit, for equal styles in all figures.
    """
    style = styles(mechanisms)
    shown = within_ceiling(table).sort("dataset", "mechanism", "value")
    names = shown["mechanism"].unique().sort().to_list()
    colour = alt.Color(
        "mechanism:N",
        scale=alt.Scale(domain=names, range=[style[name].colour if name in style else COLOURS[0] for name in names]),
        legend=alt.Legend(title=None, symbolOpacity=1, labelLimit=0),
    )
    width = (WIDTH - 200) // len(MEASURES) - 60
    datasets: dict[str, list[dict[str, Any]]] = {}

    def panel(setting: str, measure: str) -> alt.LayerChart | alt.FacetChart:
        low, high = _ENDS.get(measure, ("loss", "upper"))
        label = pl.col("value").map_elements(budget, pl.String).alias("label")
        here = shown.filter(setting=setting).with_columns(label)
        order = [budget(value) for value in here["value"].unique().sort()]
        datasets[f"sweep {setting}"] = here.to_dicts()
        base = alt.Chart(alt.NamedData(f"sweep {setting}"))
        x = alt.X("label:N", title="nominal ε" if setting == "epsilon" else setting, sort=order,
                  axis=alt.Axis(labelAngle=0))  # fmt: skip
        y = alt.Y(f"{measure}:Q", title=MEASURES[measure], scale=alt.Scale(zero=measure == "point"))
        tooltip = [
            *(alt.Tooltip(f"{name}:N") for name in ("dataset", "mechanism", "label")),
            alt.Tooltip(f"{measure}:Q"),
        ]
        return alt.layer(
            base.mark_rule(strokeWidth=1.5, opacity=0.5).encode(x, alt.Y(f"{low}:Q"), alt.Y2(high), colour),
            base.mark_line(strokeWidth=1.4).encode(x, y, colour, detail="dataset:N"),
            base.mark_point(filled=True, size=40, opacity=1).encode(x, y, colour, tooltip=tooltip),
        ).properties(width=width, height=150)

    settings = shown["setting"].unique().sort().to_list()
    panels = [panel(setting, measure) for setting in settings for measure in MEASURES]
    return joined(panels, datasets, columns=len(MEASURES), spacing=30)
