"""The audit's figures, and the numbers behind them for `dvc plots` and `dvc metrics`. Losses are in nats."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from altair.utils._importers import vl_version_for_vl_convert

from epsilometer.auditing.diagnostics import STRONGEST_INSIDE
from epsilometer.core.guarantees import budget_name

Specification = dict[str, Any]
"""A figure as self-contained Vega-Lite: what browsers draw, and what pictures are made from."""

_VEGA_LITE = vl_version_for_vl_convert()  # the version that the specifications of this altair are written in

# Distinct with normal and with red-green or blue-yellow blind sight, and dark enough on white (after Okabe and Ito
# 2008 and Tol 2021); the shape says the same once more, for grey print.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#332288",
    "#e69f00",
    "#56b4e9",
    "#882255",
    "#7a7a26",
    "#5f5f5f",
)
SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",  # circle
    "M-0.9,-0.9H0.9V0.9H-0.9Z",  # square
    "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",  # diamond
    "M-1.1,-0.9H1.1L0,1.1Z",  # triangle
    "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z",  # cross
)
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2))
ARROW = "M0,-1.6L1,0H0.3V1.6H-0.3V0H-1Z"

INK, MUTED, GRID = "#1d2733", "#5b6773", "#e3e7eb"
_LABEL_HEIGHT = 0.06  # on the axis of utility
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
WIDTH = 1096  # of the page's figures, in pixels

_CONFIG = {
    "font": FONT,
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID,
        "domainColor": "#9aa4ae",
        "tickColor": "#9aa4ae",
    },
    "title": {"fontSize": 13, "fontWeight": 600, "color": INK, "anchor": "start", "frame": "group", "offset": -10},
    "legend": {"labelFontSize": 12, "labelColor": INK, "titleFontSize": 12, "symbolSize": 70},
}


@dataclass(frozen=True)
class Style:
    """How a mechanism is drawn, everywhere: its colour, its marker (an SVG path within -1..1) and its dashes."""

    colour: str
    shape: str
    dash: tuple[int, ...]


def styles(mechanisms: Iterable[str]) -> dict[str, Style]:
    """One fixed style for each mechanism, in order of their names."""
    rounds = len(COLOURS)
    return {
        name: Style(
            COLOURS[i % rounds],
            SHAPES[(i + i // rounds) % len(SHAPES)],  # two mechanisms of one colour differ in shape
            DASHES[i // rounds % len(DASHES)],
        )
        for i, name in enumerate(sorted(set(mechanisms)))
    }


def nats(value: float, ceiling: float = math.inf) -> str:
    """A loss with two decimals; what has no finite value is `above` the ceiling."""
    return f"{round(value, 2) + 0.0:.2f}" if math.isfinite(value) else f"above {ceiling:.2f}"  # + 0.0: never -0.00


def budget(epsilon: float | None) -> str:
    """A nominal epsilon as it is written everywhere: `0.5`, `2,500`; a dash for a mechanism without a budget."""
    if epsilon is None:
        return "–"
    return f"{epsilon:,.6f}".rstrip("0").rstrip(".") if epsilon >= 1e-4 else f"{epsilon:g}"


def share(part: float) -> str:
    """A share in percent with one decimal: `57.4 %`, in one line."""
    return f"{100 * part:.1f}\N{NO-BREAK SPACE}%"


def within_ceiling(estimates: pl.DataFrame) -> pl.DataFrame:
    """The estimates with loss, point and upper cut at the ceiling: nothing above it can be shown or compared."""
    return estimates.with_columns(pl.min_horizontal(c, "ceiling").alias(c) for c in ("loss", "point", "upper"))


def instrument(table: pl.DataFrame) -> Specification:
    """Measured loss against the truth: two-text randomised response, whose loss is exactly epsilon.

    Left as it is, right as a share of the truth, where the intervals can be seen. table: epsilon, trials, loss, point,
    upper, ceiling, one row a privacy budget.
    """
    rows = [
        {
            **row,
            **{f"{name}_share": row[name] / row["epsilon"] for name in ("loss", "point", "upper")},
            "interval": f"{nats(full['loss'])} to {nats(full['upper'], full['ceiling'])}",
        }
        for row, full in zip(within_ceiling(table).to_dicts(), table.to_dicts(), strict=True)
    ]
    end = 1.06 * max(row["epsilon"] for row in rows)
    truth = [{"epsilon": e, "truth": e, "least": 0.85 * e, "truth_share": 1, "least_share": 0.85} for e in (0.0, end)]
    edges = sorted([0.0, *(row["epsilon"] for row in rows)])
    gap = max(pairwise(edges), key=lambda ends: ends[1] - ends[0])
    label = sum(gap) / 2  # clear of what was measured
    labels = [{"epsilon": label, "truth": label, "truth_share": 1, "text": "the truth"}]
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

        known, measured, text = (alt.Chart(alt.NamedData(name)) for name in ("truth", "measured", "labels"))
        colour = COLOURS[1]
        loss, point, upper = y("loss"), y("point"), alt.Y2(f"upper{suffix}")
        return alt.layer(
            known.mark_area(color="#cfe3f1").encode(x, y("least"), alt.Y2(f"truth{suffix}")),
            known.mark_line(color=INK, strokeWidth=1.2).encode(x, y("truth")),
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
    return specify(chart, {"truth": truth, "measured": rows, "labels": labels})


def curves(estimates: pl.DataFrame, dataset: str, legend: bool = True) -> Specification:
    """Empirical loss against nominal epsilon (log scale) for one data set: a panel an attack, a colour a mechanism.

    Line: `loss`; band: `loss` to `upper`; dots: `point`; dashes: ceiling; an arrow where `upper` lies above it. Dots
    are hollow where the attack sees what is not released, or has not been validated for so many candidates. The
    strongest attack inside has a panel where it is another than the strongest on what is released. All figures of one
    audit share their axes and styles. A mechanism without a budget is a line across the panel. The parameter
    `highlight` (names; none for all) fades the rest.
    """
    style = styles(estimates["mechanism"])
    if estimates.filter(attack=STRONGEST_INSIDE)["released"].all():
        estimates = estimates.filter(pl.col("attack") != STRONGEST_INSIDE)
    here = estimates.filter(dataset=dataset).sort("attack", "mechanism", "epsilon")
    attacks = here["attack"].unique(maintain_order=True).to_list()
    columns = min(estimates["attack"].n_unique(), 3)  # panels of one size in all figures
    width = min(420, (WIDTH - 40) // columns - 42)
    low, high = _range(estimates["epsilon"])
    x = alt.X(
        "epsilon:Q",
        title="nominal ε",
        scale=alt.Scale(type="log", domain=[low / 1.25, high * 1.25], nice=False),
        axis=alt.Axis(values=_ticks(low, high), format=",~f", labelOverlap=True, grid=False),
    )
    y_scale = alt.Scale(domain=[0, 1.14 * _range(estimates["ceiling"])[1]], nice=False)

    def by_mechanism(values: Sequence[str] | Sequence[list[int]]) -> alt.Scale:
        return alt.Scale(domain=list(style), range=values)

    fitting = WIDTH // (7 * max(map(len, style)) + 48)  # columns of names in one line, a letter being 7 pixels wide
    key = (
        alt.Legend(
            title=None,
            orient="top",
            columns=max(1, fitting),
            labelLimit=0,
            symbolOpacity=1,
            symbolStrokeWidth=0,
            labelExpr=_marked(estimates.filter("control")["mechanism"]),
        )
        if legend
        else None
    )
    colour = alt.Color("mechanism:N", scale=by_mechanism([s.colour for s in style.values()]), legend=key)
    shape = alt.Shape("mechanism:N", scale=by_mechanism([s.shape for s in style.values()]), legend=key)
    solid = [1, 0]
    dash = alt.StrokeDash(
        "mechanism:N", scale=by_mechanism([list(s.dash) or solid for s in style.values()]), legend=None
    )
    tooltip = [
        alt.Tooltip("mechanism:N"),
        alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f"),
        alt.Tooltip("sees:N"),
        alt.Tooltip("interval:N", title="loss to upper end"),
        alt.Tooltip("plug_in:N", title="plug-in"),
        alt.Tooltip("correct:N", title="correct guesses"),
    ]
    datasets: dict[str, list[dict[str, Any]]] = {}

    def data(name: str, rows: list[dict[str, Any]]) -> alt.Chart:
        datasets[name] = rows
        return alt.Chart(alt.NamedData(name))

    def shown(strong: float, weak: float) -> alt.OpacityValue:
        chosen = "length(highlight) == 0 || indexof(highlight, datum.mechanism) >= 0"
        return alt.OpacityValue(weak, condition={"test": chosen, "value": strong})

    def panel(number: int, attack: str) -> alt.LayerChart | alt.FacetChart:
        rows = _points(here.filter(attack=attack))
        ceilings = sorted({row["ceiling"] for row in rows})
        title = "empirical loss (nats)" if number % columns == 0 else None

        def y(field: str) -> alt.Y:
            return alt.Y(f"{field}:Q", title=title, scale=y_scale, axis=alt.Axis(tickCount=6))

        base = data(f"points {number}", [row for row in rows if row["epsilon"] is not None])
        without = data(f"without budget {number}", [row for row in rows if row["epsilon"] is None])
        limit = data(f"ceilings {number}", [{"ceiling": c} for c in ceilings])
        label = data(f"labels {number}", [{"text": "ceiling " + " and ".join(map(nats, ceilings))}])
        return alt.layer(
            limit.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(y("ceiling")),
            label.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11).encode(
                x=alt.value("width"), y=alt.value(-6), text="text:N"
            ),
            without.mark_rule(strokeWidth=1.8).encode(
                y("loss"), colour, dash, opacity=shown(1, 0.1), tooltip=[tooltip[0], *tooltip[2:]]
            ),
            base.mark_area().encode(x, y("loss"), alt.Y2("upper"), colour, opacity=shown(0.13, 0.02)),
            base.mark_line(strokeWidth=1.8, strokeJoin="round").encode(
                x, y("loss"), colour, dash, opacity=shown(1, 0.1)
            ),
            base.transform_filter("datum.budgets == 1")  # a line and a band need two
            .mark_rule(strokeWidth=1.8)
            .encode(x, y("loss"), alt.Y2("upper"), colour, opacity=shown(1, 0.1)),
            base.transform_filter("datum.above")
            .mark_point(shape=ARROW, size=34, filled=True, yOffset=-7)
            .encode(x, y("upper"), colour, opacity=shown(1, 0.1)),
            base.transform_filter("datum.solid")
            .mark_point(filled=True, size=38)
            .encode(x, y("point"), colour, shape, opacity=shown(1, 0.1), tooltip=tooltip),
            base.transform_filter("!datum.solid")
            .mark_point(strokeWidth=1.4, size=38)
            .encode(x, y("point"), colour, shape, opacity=shown(1, 0.1), tooltip=tooltip),
        ).properties(width=width, height=210, title=attack.replace("_", " "))

    chart = (
        alt.concat(*(panel(i, a) for i, a in enumerate(attacks)), columns=columns, spacing=22)
        .resolve_scale(color="shared", shape="shared", strokeDash="shared")
        .add_params(alt.param(name="highlight", value=[]))
    )
    return specify(chart, datasets)


def tradeoff(points: pl.DataFrame, levels: pl.DataFrame, mechanisms: Iterable[str], target: float) -> Specification:
    """Utility against the loss of the strongest attack: a row of panels a data set, a panel a measure of utility.

    A line is a mechanism, with its budgets along it. points: as `worth.tradeoff_points` gives them: dataset, measure,
    mechanism, epsilon, attack, loss, point, upper, ceiling, optimal, control, utility, low, high, best (no other point
    is both worth more and less leaky: on the Pareto front). levels: dataset, measure, what, value, drawn across.
    """
    style = styles(mechanisms)
    names = points["mechanism"].unique().sort().to_list()
    controls = points.filter("control")["mechanism"].unique().sort().to_list()
    panels = points.select("dataset", "measure").unique(maintain_order=True).rows()
    columns = max(len([1 for other, _ in panels if other == name]) for name, _ in panels)
    columns = 2 if columns == 1 else columns
    width = min(460, (WIDTH - 140) // columns - 60)
    rows = [
        {**row, "interval": f"{nats(full['loss'])} to {nats(full['upper'], full['ceiling'])}"}
        for row, full in zip(within_ceiling(points).to_dicts(), points.to_dicts(), strict=True)
    ]
    x = alt.X(
        "point:Q",
        title="empirical loss of the strongest attack on what is released (nats)",
        scale=alt.Scale(domain=[0, 1.04 * _range(points["ceiling"])[1]], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    colour, shape = _by_name(style, names, controls)
    tooltip = [
        alt.Tooltip("mechanism:N"),
        alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f"),
        alt.Tooltip("attack:N", title="strongest attack"),
        alt.Tooltip("interval:N", title="loss to upper end"),
        alt.Tooltip("utility:Q", format=".2f"),
    ]
    datasets: dict[str, list[dict[str, Any]]] = {"target": [{"target": target}]}

    def panel(name: str, measure: str) -> alt.LayerChart | alt.FacetChart:
        key = f"tradeoff {name} {measure}"
        here = points.filter(dataset=name, measure=measure)
        datasets[key] = [row for row in rows if (row["dataset"], row["measure"]) == (name, measure)]
        datasets[f"levels {key}"] = _apart(levels.filter(dataset=name, measure=measure)).to_dicts()
        base, level = alt.Chart(alt.NamedData(key)), alt.Chart(alt.NamedData(f"levels {key}"))
        low, title = min(0.0, _range(here["low"])[0]), "cosine of text and rewrite" if measure == "cosine" else measure
        scale = alt.Scale(domain=[low, 1.12], nice=False)
        y, value = alt.Y("utility:Q", title=title, scale=scale), alt.Y("value:Q", title=title, scale=scale)
        return alt.layer(
            alt.Chart(alt.NamedData("target")).mark_rule(color=MUTED, strokeDash=[4, 3]).encode(alt.X("target:Q")),
            level.mark_rule(color=MUTED, strokeDash=[1, 3]).encode(value),
            level.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11).encode(
                value, x=alt.value("width"), text="what:N"
            ),
            base.mark_rule(opacity=0.35).encode(alt.X("loss:Q"), y, alt.X2("upper"), color=colour),
            base.mark_rule(opacity=0.35).encode(x, alt.Y("low:Q"), alt.Y2("high"), color=colour),
            base.mark_line(strokeWidth=1.4, opacity=0.7).encode(x, y, colour, order="epsilon:Q"),
            base.transform_filter("datum.best").mark_point(size=190, color=INK, strokeWidth=1.1).encode(x, y),
            base.mark_point(filled=True, size=46, opacity=1).encode(x, y, colour, shape, tooltip=tooltip),
        ).properties(width=width, height=280, title=name)

    return specify(alt.concat(*(panel(*one) for one in panels), columns=columns, spacing=40), datasets)


def _apart(levels: pl.DataFrame) -> pl.DataFrame:
    """The levels from the highest down; one whose name would stand on another's gives it to that, and has none."""
    rows = levels.sort("value", descending=True).to_dicts()
    shown = rows[:1]
    for row in rows[1:]:
        if shown[-1]["value"] - row["value"] < _LABEL_HEIGHT:
            shown[-1]["what"], row["what"] = f"{shown[-1]['what']}, {row['what']}", ""
        else:
            shown.append(row)
    return pl.DataFrame(rows, schema=levels.schema)


def ablations(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Loss against the value of one factor of the audit: a row of panels a factor, a panel an attack.

    Dots are hollow beyond the number of candidates that an attack was validated for.
    table: schema `tables.ABLATIONS`, sorted in any way. mechanisms: all of the audit, so that styles agree.
    """
    style = styles(mechanisms)
    names = table["mechanism"].unique().sort().to_list()
    colour, shape = _by_name(style, names)
    attacks = table["attack"].unique().sort().to_list()
    width = min(300, (WIDTH - 200) // len(attacks) - 50)
    y_scale = alt.Scale(domain=[0, 1.04 * _range(table["ceiling"])[1]], nice=False)
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
    return specify(alt.concat(*panels, columns=len(attacks), spacing=30), datasets)


def deniability(table: pl.DataFrame, mechanisms: Iterable[str]) -> Specification:
    """Share of words that stay, and how many outputs a word has, against nominal epsilon (both scales as in `curves`).

    table: schema `tables.DENIABILITY`. mechanisms: all of the audit, so that styles agree between figures.
    """
    style = styles(mechanisms)
    low, high = _range(table["epsilon"])
    x = alt.X(
        "epsilon:Q",
        title="nominal ε",
        scale=alt.Scale(type="log", domain=[low / 1.25, high * 1.25], nice=False),
        axis=alt.Axis(values=_ticks(low, high), format=",~f", labelOverlap=True, grid=False),
    )
    names = table["mechanism"].unique().sort().to_list()
    colour, shape = _by_name(style, names)
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


def _marked(controls: Iterable[str]) -> str:
    """The expression of a legend's labels: names, those of controls marked."""
    names = json.dumps(sorted(set(controls)), ensure_ascii=False)
    return f"indexof({names}, datum.label) < 0 ? datum.label : datum.label + ' (control)'"


def _by_name(style: dict[str, Style], names: list[str], controls: Sequence[str] = ()) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of these mechanisms, with one legend that marks controls and that areas do not make pale."""
    legend = alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=0, labelExpr=_marked(controls))
    return (
        alt.Color("mechanism:N", scale=alt.Scale(domain=names, range=[style[n].colour for n in names]), legend=legend),
        alt.Shape("mechanism:N", scale=alt.Scale(domain=names, range=[style[n].shape for n in names]), legend=legend),
    )


def _points(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """One panel's rows: what is drawn, cut at the ceiling, and what the tooltips say, uncut."""
    drawn = within_ceiling(estimates).with_columns(budgets=pl.len().over("mechanism"))
    columns = ("mechanism", "epsilon", "loss", "point", "upper", "ceiling", "budgets")
    return [
        {
            **row,
            "above": full["upper"] > full["ceiling"],
            "interval": f"{nats(full['loss'])} to {nats(full['upper'], full['ceiling'])}",
            "plug_in": nats(full["point"], full["ceiling"]),
            "correct": f"{full['successes']:,} of {full['trials']:,} ({share(full['success_rate'])})",
            "solid": full["released"] and full["validated"],
            "sees": f"{full['sees']}{'' if full['released'] else ', not released'}"
            f"{'' if full['validated'] else ', beyond its validated k'}",
        }
        for row, full in zip(drawn.select(columns).to_dicts(), estimates.to_dicts(), strict=True)
    ]


def _range(values: pl.Series) -> tuple[float, float]:
    ordered = values.drop_nulls().sort()
    if ordered.is_empty():  # no mechanism has a budget
        return 1.0, 1.0
    return float(ordered[0]), float(ordered[-1])


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten within the range, or 1-2-5 steps where it is narrow; at least one."""
    steps = (1,) if high / low >= 100 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low / 1.25 <= s * 10.0**p <= high * 1.25] or [low]


def specify(chart: alt.HConcatChart | alt.ConcatChart, datasets: dict[str, Any]) -> Specification:
    # The rows go in last: altair would copy and check them again for every layer.
    return {**chart.to_dict(), "datasets": datasets, "config": _CONFIG}


@cache
def script() -> str:
    """The JavaScript that draws specifications in a browser (Vega, Vega-Lite, vegaEmbed), without any network."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_VEGA_LITE)


def svg(specification: Specification) -> str:
    """A still picture of a specification."""
    return vl_convert.vegalite_to_svg(specification, vl_version=_VEGA_LITE)


def save(specification: Specification, folder: Path, name: str) -> None:
    """Write `name`.svg and `name`.png (twice the size in pixels)."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = svg(specification)
    (folder / f"{name}.svg").write_text(picture, encoding="utf-8", newline="\n")
    (folder / f"{name}.png").write_bytes(vl_convert.svg_to_png(picture, scale=2))


def metrics(estimates: pl.DataFrame, path: Path) -> None:
    """Write {dataset: {mechanism: {epsilon: {attack: loss}}}} as JSON for `dvc metrics diff`.

    Losses have three decimals, so that the last bits of a sum do not look like a change, and are at most the ceiling
    (JSON knows no infinity).
    """
    tree: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for row in within_ceiling(estimates).sort("dataset", "mechanism", "epsilon", "attack").iter_rows(named=True):
        budgets = tree.setdefault(row["dataset"], {}).setdefault(row["mechanism"], {})
        budgets.setdefault(budget_name(row["epsilon"]), {})[row["attack"]] = round(row["loss"], 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def plot_table(estimates: pl.DataFrame, path: Path) -> None:
    """Write the curves as CSV for `dvc plots`: losses with three decimals, cut at the ceiling."""
    columns = ("dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling")
    path.parent.mkdir(parents=True, exist_ok=True)
    table = within_ceiling(estimates).select(columns).sort("dataset", "attack", "mechanism", "epsilon")
    table.with_columns(pl.col("loss", "point", "upper", "ceiling").round(3)).write_csv(path)
