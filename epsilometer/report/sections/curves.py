"""What each mechanism leaks at each budget: calibration curves. Losses are in nats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.diagnostics import STRONGEST_INSIDE
from epsilometer.report.figures import (
    MUTED,
    WIDTH,
    Figure,
    Specification,
    ends,
    epsilon_axis,
    legend_labels,
    specify,
    styles,
)
from epsilometer.report.results import Results
from epsilometer.report.rows import within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.wording import confidence, nats, share

_ARROW = "M0,-1.6L1,0H0.3V1.6H-0.3V0H-1Z"
_TOOLTIP = [
    alt.Tooltip("mechanism:N"),
    alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f"),
    alt.Tooltip("sees:N"),
    alt.Tooltip("interval:N", title="loss to upper end"),
    alt.Tooltip("plug_in:N", title="plug-in"),
    alt.Tooltip("correct:N", title="correct guesses"),
]


def section(results: Results) -> Section:
    """The curves of every data set; their files have a legend each, the page one for all of them."""
    estimates = results.estimates
    curves = {
        name: Figure(
            f"curves-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}",
            f"Calibration curves of data set {name}",
            figure(estimates, name, legend=False),
            saved=figure(estimates, name),
        )
        for name in estimates["dataset"].unique().sort()
    }
    return Section(
        id="curves",
        link="Calibration curves",
        template="curves.html.j2",
        context={"curves": curves, "confidence": confidence(results.params.audit.alpha)},
        figures=[*curves.values()],
    )


def figure(estimates: pl.DataFrame, dataset: str, legend: bool = True) -> Specification:
    """Empirical loss against nominal epsilon (log scale) for one data set: a panel an attack, a colour a mechanism.

    Line: `loss`; band: `loss` to `upper`; dots: `point`; dashes: ceiling; an arrow where `upper` lies above it. Dots
    are hollow where the attack sees what is not released, or has not been validated for so many candidates. The
    strongest attack inside has a panel where it is another than the strongest on what is released. All figures of one
    audit share their axes and styles. A mechanism without a budget is a line across the panel. The parameter
    `highlight` (names; none for all) fades the rest.
    """
    if estimates.filter(attack=STRONGEST_INSIDE)["released"].all():
        estimates = estimates.filter(pl.col("attack") != STRONGEST_INSIDE)
    here = estimates.filter(dataset=dataset).sort("attack", "mechanism", "epsilon")
    attacks = here["attack"].unique(maintain_order=True).to_list()
    columns = min(estimates["attack"].n_unique(), 3)  # panels of one size in all figures
    width = min(420, (WIDTH - 40) // columns - 42)
    x, colour, shape, dash = _encodings(estimates, legend)
    y_scale = alt.Scale(domain=[0, 1.14 * ends(estimates["ceiling"])[1]], nice=False)
    datasets: dict[str, list[dict[str, Any]]] = {}

    def data(name: str, rows: list[dict[str, Any]]) -> alt.Chart:
        datasets[name] = rows
        return alt.Chart(alt.NamedData(name))

    def panel(number: int, attack: str) -> alt.LayerChart | alt.FacetChart:
        rows = _points(here.filter(attack=attack))
        ceilings = sorted({row["ceiling"] for row in rows})
        title = "empirical loss (nats)" if number % columns == 0 else None
        base = data(f"points {number}", [row for row in rows if row["epsilon"] is not None])
        without = data(f"without budget {number}", [row for row in rows if row["epsilon"] is None])
        limit = data(f"ceilings {number}", [{"ceiling": c} for c in ceilings])
        label = data(f"labels {number}", [{"text": "ceiling " + " and ".join(map(nats, ceilings))}])

        def y(field: str) -> alt.Y:
            return alt.Y(f"{field}:Q", title=title, scale=y_scale, axis=alt.Axis(tickCount=6))

        def dots(part: alt.Chart) -> alt.Chart:
            return part.encode(x, y("point"), colour, shape, opacity=_shown(1, 0.1), tooltip=_TOOLTIP)

        return alt.layer(
            limit.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(y("ceiling")),
            label.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11).encode(
                x=alt.value("width"), y=alt.value(-6), text="text:N"
            ),
            without.mark_rule(strokeWidth=1.8).encode(
                y("loss"), colour, dash, opacity=_shown(1, 0.1), tooltip=[_TOOLTIP[0], *_TOOLTIP[2:]]
            ),
            base.mark_area().encode(x, y("loss"), alt.Y2("upper"), colour, opacity=_shown(0.13, 0.02)),
            base.mark_line(strokeWidth=1.8, strokeJoin="round").encode(
                x, y("loss"), colour, dash, opacity=_shown(1, 0.1)
            ),
            base.transform_filter("datum.budgets == 1")  # a line and a band need two
            .mark_rule(strokeWidth=1.8)
            .encode(x, y("loss"), alt.Y2("upper"), colour, opacity=_shown(1, 0.1)),
            base.transform_filter("datum.above")
            .mark_point(shape=_ARROW, size=34, filled=True, yOffset=-7)
            .encode(x, y("upper"), colour, opacity=_shown(1, 0.1)),
            dots(base.transform_filter("datum.solid").mark_point(filled=True, size=38)),
            dots(base.transform_filter("!datum.solid").mark_point(strokeWidth=1.4, size=38)),
        ).properties(width=width, height=210, title=attack.replace("_", " "))

    chart = (
        alt.concat(*(panel(i, a) for i, a in enumerate(attacks)), columns=columns, spacing=22)
        .resolve_scale(color="shared", shape="shared", strokeDash="shared")
        .add_params(alt.param(name="highlight", value=[]))
    )
    return specify(chart, datasets)


def _encodings(estimates: pl.DataFrame, legend: bool) -> tuple[alt.X, alt.Color, alt.Shape, alt.StrokeDash]:
    """The axis of epsilon, and how mechanisms are told apart; with a legend of all of them on top."""
    style = styles(estimates["mechanism"])
    fitting = WIDTH // (7 * max(map(len, style)) + 48)  # columns of names in one line, a letter being 7 pixels wide
    top = alt.Legend(
        title=None,
        orient="top",
        columns=max(1, fitting),
        labelLimit=0,
        symbolOpacity=1,
        symbolStrokeWidth=0,
        labelExpr=legend_labels(estimates.filter("control")["mechanism"]),
    )
    key = top if legend else None

    def by_mechanism(values: Sequence[str] | Sequence[list[int]]) -> alt.Scale:
        return alt.Scale(domain=list(style), range=values)

    dashes = by_mechanism([list(s.dash) or [1, 0] for s in style.values()])
    return (
        epsilon_axis(estimates["epsilon"]),
        alt.Color("mechanism:N", scale=by_mechanism([s.colour for s in style.values()]), legend=key),
        alt.Shape("mechanism:N", scale=by_mechanism([s.shape for s in style.values()]), legend=key),
        alt.StrokeDash("mechanism:N", scale=dashes, legend=None),
    )


def _shown(strong: float, weak: float) -> alt.OpacityValue:
    """Weak where other mechanisms are brought out."""
    chosen = "length(highlight) == 0 || indexof(highlight, datum.mechanism) >= 0"
    return alt.OpacityValue(weak, condition={"test": chosen, "value": strong})


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
