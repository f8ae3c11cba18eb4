"""The report's section on the history of audits, put into the finished page: DVC tracks neither.

Only where there are two audits or more. A line a budget: what the strongest attack measured, audit by audit.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from epsilometer.auditing.diagnostics import STRONGEST
from epsilometer.core import tables
from epsilometer.reaudit import history
from epsilometer.report.places import put

_COLUMNS = 3
_DRAWN = 52  # audits: the latest
_MOVED = 12  # rows of the table: the cells that moved most
_TOLD = ["date", "commit", "round", "trials", "loss", "point", "upper"]
_SHADES = ("#0b5394", "#d55e00", "#009e73", "#a05195", "#7a7a26", "#5f5f5f")  # a budget each, smallest first


def put_in(page: Path, past: pl.DataFrame) -> None:
    """Put the section into a page that has a place for it, instead of one that is there. past: schema
    `history.HISTORY`."""
    text, several = page.read_text(encoding="utf-8"), len(history.audits(past)) > 1
    text = put(text, "history link", '<a href="#history">Earlier audits</a>' if several else "")
    text = put(text, "history", section(past) if several else "")
    tables.write_text(text, page)


def section(past: pl.DataFrame) -> str:
    """The section as HTML."""
    from epsilometer.report import figures as draw  # altair takes a second, and most pages have no history

    dates = history.audits(past)
    best = past.filter(attack=STRONGEST)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["budget"] = draw.budget
    specification = figure(best.filter(pl.col("date").is_in(dates[-_DRAWN:])))
    moved = [row | {"change": row["last"] - row["first"]} for row in history.courses(best.drop("attack"))]
    return environment.get_template("history.html.j2").render(
        audits=len(dates),
        drawn=min(len(dates), _DRAWN),
        first=dates[0][:10],
        last=dates[-1][:10],
        commits=past.unique("date", maintain_order=True).select("date", "commit", "round").to_dicts()[-6:],
        rows=sorted(moved, key=lambda row: -abs(row["change"]))[:_MOVED],
        cells=len(moved),
        json=json.dumps(specification, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        picture=f"data:image/svg+xml;base64,{base64.b64encode(draw.svg(specification).encode()).decode()}",
    )


def figure(best: pl.DataFrame) -> dict[str, Any]:
    """Loss against the date: a panel a mechanism and data set, a line a budget. best: of one attack.

    Line and dots: `point`; bars: `loss` to `upper`, cut at the ceiling.
    """
    import altair as alt

    from epsilometer.report.figures import WIDTH, budget, specify, within_ceiling

    width = (WIDTH - 40) // _COLUMNS - 60
    top = 1.25 * max(best["ceiling"])  # the title stands inside
    datasets: dict[str, list[dict[str, Any]]] = {}

    def panel(dataset: str, mechanism: str) -> alt.LayerChart | alt.FacetChart:
        here = within_ceiling(best.filter(dataset=dataset, mechanism=mechanism))
        budgets = here["epsilon"].unique().sort().to_list()
        name = f"history {dataset} {mechanism}"
        datasets[name] = [
            {name: row[name] for name in _TOLD}
            | {"budget": budget(row["epsilon"]), "interval": f"{row['loss']:.2f} to {row['upper']:.2f}"}
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
