"""The worst case of each claim, and the deniability of single words."""

from __future__ import annotations

from collections.abc import Iterable

import altair as alt
import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM, VIOLATED, with_overall
from epsilometer.auditing.schemas import CLAIMS, DENIABILITY
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import Figure, Specification, by_name, epsilon_axis, specify, styles
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import at_budget, listed


def section(results: TextResults) -> Section | None:
    """Return each claim with its worst case, violated first, and the deniability of words; None without claims."""
    claims = results.table("data/claims.parquet", CLAIMS)
    if claims.filter(pl.col("verdict") != NO_CLAIM).is_empty():
        return None
    judged = with_overall(claims, results.verdicts).filter(pl.col("verdict") != NO_CLAIM)
    judged = judged.sort(pl.col("overall") != VIOLATED, maintain_order=True)
    blocks: list[Table | Figure] = [worst_cases(judged)]
    if len(words := results.table("data/deniability.parquet", DENIABILITY)):
        blocks += [
            Figure(
                "deniability",
                "Plausible deniability of words",
                figure(words, results.estimates["mechanism"]),
                heading="Plausible deniability of single words",
                caption="The share of draws in which a word stays unchanged, and the number of different words that "
                "replace it: means over words, with bands from the 5th to the 95th percentile. Many outputs do not "
                "prove privacy.",
            ),
            deniable(words),
        ]
    return Section(
        "worst", "Worst case", "The worst case of each claim", [sentence(claims)], blocks=blocks, folded=True
    )


def worst_cases(claims: pl.DataFrame) -> Table:
    """Return a table of claims and their worst cases. claims: with a column `overall`, the verdict on each claim."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | claim: {claim} | method: {method} | "
        "claimed: {claimed:number} | worst: {worst:number} | audited: {yes} | verdict: {overall}"
    )
    caption = (
        "With a known law the worst case is exact, over all outputs and all pairs of at most `claims.vocabulary` "
        "inputs. Without a law it is sampled: `worst` is then a lower bound, and the claim is also tested at "
        "budgets that are not audited but small enough for samples to refute it. The verdict rests on all tests of "
        "the claim, including attacks; `not checked` means that only the worst case was not checked."
    )
    audited = pl.when("audited").then(pl.lit("yes")).otherwise(pl.lit("no"))
    return Table(
        "Claims against their worst case", caption, records(claims.with_columns(yes=audited), columns), off_page=True
    )


def deniable(words: pl.DataFrame) -> Table:
    """Return the share of draws in which a word stays, and its number of different outputs; schema `DENIABILITY`."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | method: {method} | "
        "stays: {stays:.3f} | stays, 5th to 95th percentile: {stays_low:.3f} to {stays_high:.3f} | "
        "outputs: {support:.1f} | outputs, 5th to 95th percentile: {support_low:.1f} to {support_high:.1f}"
    )
    caption = (
        "The share of 100 draws in which a word of the vocabulary stays unchanged, and the number of different outputs "
        "(1-Diffractor, figure 4): means over 100 words. Many outputs do not prove privacy."
    )
    return Table("Plausible deniability of words", caption, records(words, columns), off_page=True)


def sentence(claims: pl.DataFrame) -> str:
    """Return a sentence that states if the worst case exceeds a claim."""
    broken = claims.filter(verdict=VIOLATED).sort("mechanism", "epsilon")
    if len(broken):
        named = listed([at_budget(row["mechanism"], row["epsilon"]) for row in broken.to_dicts()])
        return f"The worst case exceeds the claim: {named}."
    laws = claims.filter(pl.col("method").is_in(["exact", "largest found"]), pl.col("slack").is_not_null())
    if len(laws):
        return f"The worst case exceeds the claim in none of the {len(laws)} laws that could be computed."
    return "No law of these mechanisms could be computed."


def figure(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Return the share of draws that keep a word, and the outputs per word, against nominal epsilon.

    table: schema `DENIABILITY`. mechanisms: all mechanisms of the audit, so that styles agree between figures.
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
