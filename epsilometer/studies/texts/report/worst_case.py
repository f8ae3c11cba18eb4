"""The worst case of each claim, and how deniable single words are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import altair as alt
import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, VIOLATED, with_overall
from epsilometer.auditing.schemas import CLAIMS, DENIABILITY
from epsilometer.report.figures import Figure, Specification, by_name, epsilon_axis, specify, styles
from epsilometer.report.section import Section
from epsilometer.report.wording import at_budget, listed
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section | None:
    """Each claim's least slack with its witness, violated claims first."""
    claims = results.table("data/claims.parquet", CLAIMS)
    claimed = claims.filter(pl.col("verdict") != NO_CLAIM)
    if claimed.is_empty():
        return None
    claimed = claimed.with_columns(tested=pl.col("verdict").is_in([VIOLATED, NOT_REFUTED]))
    words = results.table("data/deniability.parquet", DENIABILITY)
    deniability = None
    if len(words):
        specification = figure(words, results.estimates["mechanism"])
        deniability = Figure("deniability", "Plausible deniability of words", specification)
    return Section(
        id="worst",
        link="Worst cases",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "worst": with_overall(claimed, results.verdicts)
            .sort(pl.col("overall") != VIOLATED, "mechanism", "epsilon")
            .to_dicts(),
            "worst_sentence": sentence(claims),
            "deniability": deniability,
        },
        figures=[deniability] if deniability else [],
    )


def sentence(claims: pl.DataFrame) -> str:
    """Whether the worst case stays within the claims."""
    broken = claims.filter(verdict=VIOLATED).sort("mechanism", "epsilon")
    if len(broken):
        named = listed([at_budget(row["mechanism"], row["epsilon"]) for row in broken.to_dicts()])
        return f"Beyond its claim: {named}."
    laws = claims.filter(pl.col("method").is_in(["exact", "largest found"]), pl.col("slack").is_not_null())
    if len(laws):
        return f"In none of the {len(laws)} laws that could be computed does the worst case exceed the claim."
    return "No law of these mechanisms could be computed."


def figure(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Share of words that stay, and how many outputs a word has, against nominal epsilon (both scales as in `curves`).

    table: schema `DENIABILITY`. mechanisms: all of the audit, so that styles agree between figures.
    """
    style = styles(mechanisms)
    x = epsilon_axis(table["epsilon"])
    names = table["mechanism"].unique().sort().to_list()
    colour, shape = by_name(style, names)
    tooltip = [alt.Tooltip("mechanism:N"), alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f")]

    def panel(field: str, title: str, domain: list[float], number: str) -> alt.LayerChart | alt.FacetChart:
        y = alt.Y(f"{field}:Q", title=title, scale=alt.Scale(domain=domain), axis=alt.Axis(tickCount=6, format=number))
        shown = [*tooltip, alt.Tooltip(f"{field}:Q", title=title, format=number), alt.Tooltip("method:N")]
        base = alt.Chart(alt.NamedData("words"))
        return alt.layer(
            base.mark_area(opacity=0.1).encode(x, alt.Y(f"{field}_low:Q"), alt.Y2(f"{field}_high"), colour),
            base.mark_line(strokeWidth=1.8).encode(x, y, colour),
            base.mark_point(filled=True, size=38, opacity=1).encode(x, y, colour, shape, tooltip=shown),
        ).properties(width=430, height=230)

    most = max(1.0, float(table["support_high"].max()))  # type: ignore[arg-type]
    chart = alt.hconcat(
        panel("stays", "share of draws that keep the word", [0, 1], ".0%"),
        panel("support", "distinct outputs in 100 draws", [0, 1.04 * most], ",.3~r"),
        spacing=60,
    )
    return specify(chart, {"words": table.sort("mechanism", "epsilon").to_dicts()})
