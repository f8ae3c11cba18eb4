"""What the audit's own settings do: one factor varied at a time. Losses are in nats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.schemas import ABLATIONS, FIRST_TOKENS, TOKENS
from epsilometer.report.figures import WIDTH, Figure, Specification, by_name, ends, joined, styles
from epsilometer.report.rows import within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.wording import budget, share
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.tables import tokens_path, varied_path


def section(results: TextResults) -> Section | None:
    """Losses when one factor is varied, likeliest first tokens, and how mechanisms cut a text."""
    cells = results.params.ablations
    table = results.tables([varied_path("ablations", cell) for cell in cells], ABLATIONS)
    if table.is_empty():
        return None
    first = results.tables([varied_path("first_tokens", cell) for cell in cells], FIRST_TOKENS)
    datasets = {cell.dataset for cell in cells.values()} & {*results.public}
    cutting = [name for name, cell in results.params.cells.items() if cell.dataset in datasets]
    parts = results.tables([tokens_path(name) for name in cutting], TOKENS)
    words = "Loss when one factor of the audit is varied"
    varied = Figure("ablations", words, figure(table, results.estimates["mechanism"]))
    return Section(
        id="factors",
        link="Ablations",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "ablations": varied,
            "first_tokens": first_tokens(results.shown(first)),
            "tokens": tokens(results.shown(parts)),
        },
        figures=[varied],
    )


def figure(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Loss against the value of one factor of the audit: a row of panels a factor, a panel an attack.

    Dots are hollow beyond the number of candidates that an attack was validated for.
    table: schema `ABLATIONS`, sorted in any way. mechanisms: all of the audit, so that styles agree.
    """
    style = styles(mechanisms)
    names = table["mechanism"].unique().sort().to_list()
    colour, shape = by_name(style, names)
    attacks = table["attack"].unique().sort().to_list()
    width = min(300, (WIDTH - 200) // len(attacks) - 50)
    y_scale = alt.Scale(domain=[0, 1.04 * ends(table["ceiling"])[1]], nice=False)
    datasets: dict[str, list[dict[str, Any]]] = {}

    def panel(factor: str, attack: str) -> alt.LayerChart | alt.FacetChart:
        here = within_ceiling(table.filter(factor=factor, attack=attack)).sort("dataset", "mechanism", "value")
        name = f"ablation {factor} {attack}"
        datasets[name] = here.with_columns(label=pl.col("value").map_elements(budget, pl.String)).to_dicts()
        base = alt.Chart(alt.NamedData(name))
        x = alt.X("label:N", title=factor, sort=None, axis=alt.Axis(labelAngle=0))
        y = alt.Y("point:Q", title="empirical loss (nats)", scale=y_scale, axis=alt.Axis(tickCount=6))
        tooltip = [*(alt.Tooltip(f"{field}:N") for field in ("dataset", "mechanism", "label")), alt.Tooltip("loss:Q")]
        return alt.layer(
            base.mark_rule(strokeWidth=1.5, opacity=0.5).encode(x, alt.Y("loss:Q"), alt.Y2("upper"), colour),
            base.mark_line(strokeWidth=1.4).encode(x, y, colour, detail="dataset:N"),
            base.transform_filter("datum.validated")
            .mark_point(filled=True, size=40, opacity=1)
            .encode(x, y, colour, shape, tooltip=tooltip),
            base.transform_filter("!datum.validated")
            .mark_point(strokeWidth=1.4, size=40, opacity=1)
            .encode(x, y, colour, shape, tooltip=tooltip),
        ).properties(width=width, height=180, title=attack)

    factors = table["factor"].unique().sort().to_list()
    panels = [panel(factor, attack) for factor in factors for attack in attacks]
    return joined(panels, datasets, columns=len(attacks), spacing=30)


def first_tokens(table: pl.DataFrame) -> list[dict[str, Any]]:
    """For each cell its text, and a row an epsilon of `token 57.4 %`."""
    return [
        {
            "dataset": dataset,
            "mechanism": mechanism,
            "text": text,
            "rows": [
                (epsilon, [f"{row['token']} {share(row['probability'])}" for row in tokens.sort("rank").to_dicts()])
                for (epsilon,), tokens in rows.sort("epsilon").group_by("epsilon", maintain_order=True)
            ],
        }
        for (dataset, mechanism, text), rows in table.sort("dataset", "mechanism").group_by(
            "dataset", "mechanism", "text", maintain_order=True
        )
    ]


def tokens(table: pl.DataFrame) -> list[dict[str, Any]]:
    """For each text the mechanisms and what they cut it into, the fewest parts first."""
    return [
        {
            "dataset": dataset,
            "text": text,
            "rows": rows.sort(pl.col("tokens").list.len(), "mechanism").select("mechanism", "tokens").rows(),
        }
        for (dataset, text), rows in table.sort("dataset").group_by("dataset", "text", maintain_order=True)
    ]
