"""The effect of the audit's settings on the loss, in nats, with one setting varied at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.schemas import ABLATIONS, FIRST_TOKENS, TOKENS
from epsilometer.cells.tables import tokens_path, varied_path
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import WIDTH, Figure, Specification, by_name, ends, joined, styles
from epsilometer.report.rows import within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, records
from epsilometer.report.wording import budget, loss_between, nats, share


def section(results: TextResults) -> Section | None:
    """Return losses when one factor is varied, likely first tokens of rewrites, and the mechanisms' units of a text."""
    cells = results.params.ablations
    table = results.tables([varied_path("ablations", cell) for cell in cells], ABLATIONS)
    if table.is_empty():
        return None
    first = results.tables([varied_path("first_tokens", cell) for cell in cells], FIRST_TOKENS)
    datasets = {cell.dataset for cell in cells.values()} & {*results.public}
    cutting = [name for name, cell in results.params.cells.items() if cell.dataset in datasets]
    parts = results.tables([tokens_path(name) for name in cutting], TOKENS)
    factors = Figure(
        "ablations",
        "Loss when one factor of the audit is varied",
        figure(table, results.estimates["mechanism"]),
        caption="One factor of this audit is varied: the number of candidates k, their sampling temperature λ "
        "(negative: dissimilar texts) or the seed. Dots: plug-in value, hollow if the attack was not validated for "
        "this number of candidates; bars: the interval.",
    )
    tables = [varied(table), *first_tokens(results.shown(first)), *tokens(results.shown(parts))]
    return Section("factors", "Ablations", "What the audit's own settings do", blocks=[factors, *tables], folded=True)


def varied(ablations: pl.DataFrame) -> Table:
    """Return a table of losses when one factor of the audit is varied."""
    columns = (
        NAMED + " | attack: {attack} | factor: {factor} | value: {value:number} | trials: {trials} | loss: {interval}"
        " | plug-in: {plug_in} | by two rates: {by_rates:.2f} | plug-in by two rates: {plug_in_by_rates}"
    )
    caption = (
        "Plug-in: the loss at the observed share of right guesses. By two rates: lower bound and plug-in value from "
        "the true and false positives for the first candidate (TeDA, figure 9). An infinite plug-in value is above the "
        "ceiling."
    )
    rows = []
    for row in ablations.to_dicts():
        points = [
            None if row[name] is None else nats(row[name], row["ceiling"]) for name in ("point", "by_rates_point")
        ]
        rows.append(row | {"interval": loss_between(row), "plug_in": points[0], "plug_in_by_rates": points[1]})
    return Table("One factor of the audit varied", caption, records(rows, columns), folded=True)


def figure(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Return the loss against the value of one factor of the audit: a row of panels per factor, a panel per attack.

    Dots are hollow if an attack was not validated for this number of candidates.
    table: schema `ABLATIONS`, in any order. mechanisms: all mechanisms of the audit, for equal styles in all figures.
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
        here = here.drop("by_rates", "by_rates_point")
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


def first_tokens(table: pl.DataFrame) -> Iterator[Table]:
    """Yield, for each cell, a table of the most likely first tokens of the rewrite of one text: `token 57.4 %`."""
    for (dataset, mechanism, text), part in table.sort("dataset", "mechanism", "epsilon", "rank").group_by(
        "dataset", "mechanism", "text", maintain_order=True
    ):
        rows = [
            {"epsilon": budget(epsilon), "likeliest first tokens": ", ".join(f"{t} {share(p)}" for t, p in likeliest)}
            for (epsilon,), group in part.group_by("epsilon", maintain_order=True)
            for likeliest in [group.select("token", "probability").iter_rows()]
        ]
        caption = f"The most likely first tokens of the rewrite of “{text}”, with their probabilities."
        yield Table(f"The first token of {mechanism} on {dataset}", caption, rows, texts=True)


def tokens(table: pl.DataFrame) -> Iterator[Table]:
    """Yield, for each text, a table of the parts that mechanisms split it into, the fewest parts first."""
    parts = table.with_columns(parts=pl.col("tokens").list.len(), cut=pl.col("tokens").list.join(" · "))
    for (dataset, text), part in parts.sort("dataset", "parts", "mechanism").group_by(
        "dataset", "text", maintain_order=True
    ):
        caption = f"“{text}” in the units that each claim counts; mechanisms that rewrite a whole text are left out."
        rows = records(part, "mechanism: {mechanism} | parts: {parts} | text: {cut}")
        yield Table(f"How mechanisms split a text of {dataset}", caption, rows, texts=True)
