"""The losses of the strongest attack in each audit of the history.

The section is inserted into the finished page, because DVC tracks neither the history nor the page. It needs at least
two audits with attacks on texts.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from markupsafe import Markup

from epsilometer.reaudit import history
from epsilometer.report.environment import show
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, records
from epsilometer.report.wording import budget, loss_interval

_COLUMNS = 3
_SHOWN = 52  # number of latest audits in the figure
_MOVED = 12  # number of rows of the table: the cells with the largest changes
_TOOLTIP = ["date", "commit", "round", "trials", "loss", "point", "upper"]
_SHADES = ("#0b5394", "#d55e00", "#009e73", "#a05195", "#7a7a26", "#5f5f5f")  # one per budget, the smallest first


def link(past: pl.DataFrame) -> Markup:
    """Return the entry in the page's table of contents. past: schema `history.HISTORY`."""
    return Markup('<a href="#history">Earlier audits</a>') if len(history.audits(_best(past))) > 1 else Markup()


def section(past: pl.DataFrame) -> Markup:
    """Return the section as HTML; empty for fewer than two audits. past: schema `history.HISTORY`."""
    best = _best(past)
    dates = history.audits(best)
    if len(dates) < 2:
        return Markup()
    from epsilometer.report.figures import Figure  # loading altair takes a second, and most pages have no history

    moved = [row | {"change": row["last"] - row["first"]} for row in history.courses(best.drop("attack"))]
    shown = dates[-_SHOWN:]
    losses = Figure(
        "history-figure",
        "Loss of every mechanism and data set from audit to audit",
        figure(best.filter(pl.col("date").is_in(shown))),
        caption=f"Plug-in loss in nats in the latest {len(shown)} audits; each line is a budget. Bars: the interval "
        "at each audit, clipped at the ceiling.",
    )
    columns = NAMED + (
        " | audits: {audits} | first loss: {first:.2f} | last loss: {last:.2f} | change: {change:+.2f} | "
        "course: {course}"
    )
    largest = records(sorted(moved, key=lambda row: -abs(row["change"]))[:_MOVED], columns)
    commits = best.unique("date", maintain_order=True).select("date", "commit", "round").to_dicts()[-6:]
    said = (
        f"{len(dates)} audits from {dates[0][:10]} to {dates[-1][:10]}: the loss by the strongest attack in each. "
        "A change may be chance; every re-audit tests changes since the accepted baseline."
    )
    of_all = f"The largest changes since the first audit, among {len(moved)} mechanisms, data sets and budgets."
    tables = (Table("What moved most", of_all, largest), Table("The latest audits", "Dates are in UTC.", commits))
    return show(Section("history", "Earlier audits", "From audit to audit", [said], blocks=[losses, *tables]))


def _best(past: pl.DataFrame) -> pl.DataFrame:
    from epsilometer.auditing.results.diagnostics import STRONGEST

    return past.filter(attack=STRONGEST)


def figure(best: pl.DataFrame) -> dict[str, Any]:
    """Return the loss against the date: a panel per mechanism and data set, a line per budget.

    best: the rows of one attack. Line and dots: `point`; bars: `loss` to `upper`, clipped at the ceiling.
    """
    import altair as alt

    from epsilometer.report.figures import WIDTH, specify
    from epsilometer.report.rows import within_ceiling

    width = (WIDTH - 40) // _COLUMNS - 60
    top = 1.25 * max(best["ceiling"])  # leaves room for the title
    datasets: dict[str, list[dict[str, Any]]] = {}

    def panel(dataset: str, mechanism: str) -> alt.LayerChart | alt.FacetChart:
        here = within_ceiling(best.filter(dataset=dataset, mechanism=mechanism))
        budgets = here["epsilon"].unique().sort().to_list()
        name = f"history {dataset} {mechanism}"
        datasets[name] = [
            {name: row[name] for name in _TOOLTIP} | {"budget": budget(row["epsilon"]), "interval": loss_interval(row)}
            for row in here.to_dicts()
        ]
        base = alt.Chart(alt.NamedData(name))
        x = alt.X("date:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(tickCount=4, labelFlush=True))
        y = alt.Y("point:Q", title=None, scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(tickCount=4))
        colour = alt.Color(
            "budget:N",
            scale=alt.Scale(domain=[budget(e) for e in budgets], range=list(_SHADES)),
            legend=alt.Legend(
                title="ε", orient="right", symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2, labelLimit=60
            ),
        )
        tooltip = [
            alt.Tooltip("date:N"),
            alt.Tooltip("budget:N", title="nominal ε"),
            alt.Tooltip("point:Q", format=".2f", title="loss (nats)"),
            alt.Tooltip("interval:N"),
            alt.Tooltip("trials:Q", format=","),
            alt.Tooltip("round:Q"),
            alt.Tooltip("commit:N"),
        ]
        return alt.layer(
            base.mark_rule(opacity=0.3, strokeWidth=2).encode(x, alt.Y("loss:Q"), alt.Y2("upper"), colour),
            base.mark_line(strokeWidth=1.6).encode(x, y, colour),
            base.mark_point(filled=True, size=28, opacity=1).encode(x, y, colour, tooltip=tooltip),
        ).properties(width=width, height=120, title=f"{mechanism} · {dataset}")

    cells = best.select("mechanism", "dataset").unique().sort("mechanism", "dataset").rows()
    chart = alt.concat(*(panel(dataset, mechanism) for mechanism, dataset in cells), columns=_COLUMNS, spacing=24)
    return specify(chart.resolve_scale(color="independent"), datasets)
