"""The calibration curves: the loss of each mechanism at each budget. Losses are in nats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.claims.verdicts import with_overall
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.report.cells.possible import certified
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import (
    MUTED,
    WIDTH,
    Figure,
    Specification,
    ends,
    epsilon_axis,
    file_name,
    joined,
    legend_labels,
    styles,
    wide_axis,
)
from epsilometer.report.rows import CELL, by_equal_length, exactly, within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import (
    budget,
    confidence,
    loss_between,
    loss_interval,
    nats,
    proved,
    share,
    tail_words,
    unbounded,
)

_DOT = 38  # square pixels
_NEAR = 0.03  # dots whose values differ by less than this share of the highest value hide each other
_ARROW = "M0,-1.6L1,0H0.3V1.6H-0.3V0H-1Z"
_TOOLTIP = [
    alt.Tooltip("mechanism:N"),
    alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f"),
    alt.Tooltip("sees:N"),
    alt.Tooltip("interval:N", title="loss to upper end"),
    alt.Tooltip("plug_in:N", title="plug-in"),
    alt.Tooltip("correct:N", title="correct guesses"),
]
# For each panel of exact losses: the columns of the line (the band's lower end), of the band's upper end, and of dots.
MEASURES = {
    "exact: average over pairs": ("average_low", "average_high", "average"),
    "exact: median to 95 % of pairs": ("median", "q95", "median"),
    "exact: worst pair": ("worst", "worst", "worst"),
}
_EXACT_TOOLTIP = [
    *_TOOLTIP[:3],
    alt.Tooltip("in_words:N", title="average"),
    *(alt.Tooltip(f"{name}_in_words:N", title=title) for name, title in (
        ("median", "median"), ("q95", "95 % of pairs"), ("worst", "worst pair"), ("relative_epsilon", "relative ε")
    )),
]  # fmt: skip


_BY_LAW = (
    " The first row has exact losses by the mechanisms' laws, between texts of equal length. Its bands are the "
    "numerical error of the average, and the range from the median to 95 % of pairs. Its dots are hollow if the law "
    "describes a view that is not released."
)


def section(results: TextResults) -> Section:
    """Return the curves of every data set. Each figure's file has a legend; the page has one legend for all figures."""
    estimates, exact = results.estimates, by_equal_length(results.exact)
    figures = []
    for name in estimates["dataset"].unique().sort():
        saved = figure(estimates, name, exact=exact)
        words = f"Calibration curves of data set {name}"
        figures.append(Figure(file_name("curves", name), words, without_legend(saved), saved=saved, heading=name))
    explained = (
        "The privacy loss that attacks prove at each nominal ε. Lower is better. **Compare mechanisms by height, not "
        "by horizontal position**: ε is for each word in one claim, and for a whole text or a unit of distance in "
        "another.",
        f"Line: the proved loss (a lower bound at confidence {confidence(results.params.audit.alpha)}); dots: "
        "plug-in value, hollow if the attack reads views that are not released or was not validated for this number "
        "of candidates; band: from the proved loss to the upper bound; dashed line: the largest loss that this "
        "number of trials can prove." + (_BY_LAW if len(exact) else ""),
    )
    cells = [(cell.dataset, cell.mechanism) for cell in results.params.cells.values()]
    order = pl.DataFrame(cells, schema=CELL[:2], orient="row").unique(maintain_order=True).with_row_index("order")
    ordered = estimates.join(order, on=CELL[:2], how="left", maintain_order="left").sort("order", maintain_order=True)
    return Section(
        id="curves",
        link="Curves",
        heading="What each mechanism leaks at each budget",
        words=explained,
        legend=True,
        folded=True,
        blocks=[
            *figures,
            *losses(results, with_overall(ordered, results.verdicts)),
        ],
    )


def losses(results: TextResults, estimates: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: losses by the strongest attack on the release and by each attack, and the verdict.

    estimates: from `verdicts.with_overall`. The column `worth` has losses that similarity proves without an attack.
    """
    order, lawful = [*results.params.attacks], set(results.exact.select(CELL).iter_rows())
    certificates = {tuple(cell): proved(loss) for *cell, loss in certified(results).select(*CELL, "proved").iter_rows()}
    for (dataset,), table in estimates.group_by("dataset", maintain_order=True):
        there = set(table["attack"]) - {*CHOSEN}
        attacks = [*(name for name in order if name in there), *sorted(there - {*order})]
        inside = [STRONGEST_INSIDE] if len(table.filter(~pl.col("released"), attack=STRONGEST_INSIDE)) else []
        worth, rows = any(of == dataset for of, *_ in certificates), []
        for (mechanism, epsilon), cell in table.group_by(CELL[1:], maintain_order=True):
            by_attack = {row["attack"]: row for row in cell.to_dicts()}
            best = by_attack.get(STRONGEST, {}).get("best_attack")
            end = "at least {}" if (dataset, mechanism, epsilon) in lawful else "ceiling"
            shown = {name: loss_between(by_attack.get(name), end) for name in (STRONGEST, *inside, *attacks)}
            if worth:
                proof = certificates.get((dataset, mechanism, epsilon))
                shown["worth"] = "" if proof is None else f"at least {proof}"
            row = {"mechanism": mechanism, "epsilon": budget(epsilon), **shown}
            tail = tail_words(by_attack.get(STRONGEST, {}).get("delta_at_4_low"), None)
            rows.append(row | {"strongest is": best, "delta at 4 nats": tail, "claim": cell["overall"][0]})
        single = table.filter(pl.col("attack").is_in(attacks))["ceiling"].to_numpy().max()
        several = table.filter(attack=STRONGEST)["ceiling"].to_numpy().min()
        caption = (
            f"k = {table['candidates'][0]}, {table['trials'][0]:,} trials for each row. If every guess is right, one "
            f"attack proves {proved(single)} nats, and the strongest of several at least {proved(several)}, because "
            "its bound is corrected for the choice."
            + (" Worth: the loss that the cosines prove without any attack." if worth else "")
        )
        yield Table(f"Losses on {dataset}", caption, rows, off_page=True)


def without_legend(specification: Specification) -> Specification:
    """Return a figure without its legend of mechanisms."""
    panels = [
        {**panel, "layer": [{**layer, "encoding": _unexplained(layer["encoding"])} for layer in panel["layer"]]}
        for panel in specification["concat"]
    ]
    return {**specification, "concat": panels}


def _unexplained(encoding: Mapping[str, Any]) -> dict[str, Any]:
    return {
        channel: {**how, "legend": None} if channel in ("color", "shape") and "legend" in how else how
        for channel, how in encoding.items()
    }


def figure(estimates: pl.DataFrame, dataset: str, exact: pl.DataFrame | None = None) -> Specification:
    """Return the loss against nominal epsilon (log scale) for one data set: a panel per attack, a colour per mechanism.

    The line is `loss`, the band `loss` to `upper`, the dots `point`, the dashes the ceiling. An arrow marks an `upper`
    above the ceiling. Dots are hollow if the attack reads more than the release, or is not validated for this number of
    candidates. The strongest attack on all views has a panel if it reads views that are not released. exact: rows of
    `EXACT`, one per cell. These add a first row of panels: the average, the quantiles and the worst pair, on a scale
    that is logarithmic above 1 nat. All figures of one audit share their axes and styles. A mechanism without a budget
    is a line across the panel. The parameter `highlight` (names of mechanisms) fades all others.
    """
    if estimates.filter(attack=STRONGEST_INSIDE)["released"].all():
        estimates = estimates.filter(pl.col("attack") != STRONGEST_INSIDE)
    here = estimates.filter(dataset=dataset).sort("attack", "mechanism", "epsilon")
    by_law = None if exact is None or exact.is_empty() else exact
    columns = min(estimates["attack"].n_unique(), 3) if by_law is None else len(MEASURES)  # equal panels in all figures
    panels = _Panels(*_encodings(estimates), width=min(420, (WIDTH - 40) // columns - 42), columns=columns)
    if by_law is not None and len(law := by_law.filter(dataset=dataset)):
        top, ceiling = _top(by_law), ends(here.filter(attack=STRONGEST)["ceiling"])[1]
        for title, measure in MEASURES.items():
            panels.add(title, _exact_points(law, measure, top), wide_axis(1.5 * top), _EXACT_TOOLTIP, ceiling=ceiling)
    sampled = (alt.Axis(tickCount=6), alt.Scale(domain=[0, 1.14 * ends(estimates["ceiling"])[1]], nice=False))
    for (attack,), table in here.group_by("attack", maintain_order=True):
        panels.add(str(attack).replace("_", " "), _points(table), sampled, _TOOLTIP)
    shared = {"scale": dict.fromkeys(("color", "shape", "strokeDash"), "shared")}
    highlight = {"name": "highlight", "value": []}
    return joined(panels.charts, panels.datasets, columns=columns, spacing=22, resolve=shared, params=[highlight])


@dataclass(frozen=True)
class _Panels:
    """Panels of one size, their shared encodings, and their rows."""

    x: alt.X
    colour: alt.Color
    shape: alt.Shape
    dash: alt.StrokeDash
    width: int
    columns: int
    charts: list[alt.LayerChart | alt.FacetChart] = field(default_factory=list)
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(
        self,
        title: str,
        rows: list[dict[str, Any]],
        height: tuple[alt.Axis, alt.Scale],
        tooltip: list[alt.Tooltip],
        ceiling: float | None = None,
    ) -> None:
        """Add a panel with these rows. ceiling: the trials' ceiling, for exact losses; None if each row has its own."""
        number, exact = len(self.charts), ceiling is not None
        ceilings = [ceiling] if ceiling is not None else sorted({row["ceiling"] for row in rows})
        axis, scale = height
        first = number % self.columns == 0
        name = ("exact loss (nats)" if exact else "empirical loss (nats)") if first else None
        base = self._data(f"points {number}", _apart([row for row in rows if row["epsilon"] is not None]))
        without = self._data(f"without budget {number}", [row for row in rows if row["epsilon"] is None])
        limit = self._data(f"ceilings {number}", [{"ceiling": c} for c in ceilings])
        text = "trials end at " if exact else "ceiling "
        label = self._data(f"labels {number}", [{"text": text + " and ".join(map(nats, ceilings))}])

        def y(column: str) -> alt.Y:
            return alt.Y(f"{column}:Q", title=name, scale=scale, axis=axis)

        def dots(part: alt.Chart) -> alt.Chart:
            channels = (self.x, y("point"), self.colour, self.shape, alt.Size("size:Q", scale=None, legend=None))
            return part.encode(*channels, opacity=_shown(1, 0.1), tooltip=tooltip)

        layers = [
            limit.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(y("ceiling")),
            label.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11).encode(
                x=alt.value("width"), y=alt.value(-6), text="text:N"
            ),
            without.mark_rule(strokeWidth=1.8).encode(
                y("loss"), self.colour, self.dash, opacity=_shown(1, 0.1), tooltip=[tooltip[0], *tooltip[2:]]
            ),
            base.mark_area().encode(self.x, y("loss"), alt.Y2("upper"), self.colour, opacity=_shown(0.13, 0.02)),
            base.mark_line(strokeWidth=1.8, strokeJoin="round").encode(
                self.x, y("loss"), self.colour, self.dash, opacity=_shown(1, 0.1)
            ),
            base.transform_filter("datum.budgets == 1")  # a line and a band need two budgets
            .mark_rule(strokeWidth=1.8)
            .encode(self.x, y("loss"), alt.Y2("upper"), self.colour, opacity=_shown(1, 0.1)),
            base.transform_filter("datum.above")
            .mark_point(shape=_ARROW, size=34, filled=True, yOffset=-7)
            .encode(self.x, y("upper"), self.colour, opacity=_shown(1, 0.1)),
            dots(base.transform_filter("datum.solid").mark_point(filled=True)),
            dots(base.transform_filter("!datum.solid").mark_point(strokeWidth=1.4)),
        ]
        self.charts.append(alt.layer(*layers).properties(width=self.width, height=210, title=title))

    def _data(self, name: str, rows: list[dict[str, Any]]) -> alt.Chart:
        self.datasets[name] = rows
        return alt.Chart(alt.NamedData(name))


def _encodings(estimates: pl.DataFrame) -> tuple[alt.X, alt.Color, alt.Shape, alt.StrokeDash]:
    """Return the axis of epsilon and the marks of mechanisms, with a legend of all mechanisms on top."""
    style = styles(estimates["mechanism"])
    fitting = WIDTH // (7 * max(map(len, style)) + 48)  # number of names that fit in one line, with 7 pixels per letter
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=max(1, fitting),
        labelLimit=0,
        symbolOpacity=1,
        symbolStrokeWidth=0,
        labelExpr=legend_labels(estimates.filter("control")["mechanism"]),
    )

    def by_mechanism(values: Sequence[str] | Sequence[list[int]]) -> alt.Scale:
        return alt.Scale(domain=list(style), range=values)

    dashes = by_mechanism([list(s.dash) or [1, 0] for s in style.values()])
    return (
        epsilon_axis(estimates["epsilon"]),
        alt.Color("mechanism:N", scale=by_mechanism([s.colour for s in style.values()]), legend=legend),
        alt.Shape("mechanism:N", scale=by_mechanism([s.shape for s in style.values()]), legend=legend),
        alt.StrokeDash("mechanism:N", scale=dashes, legend=None),
    )


def _apart(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the sizes of their dots. A dot that later dots cover is larger, so that it stays visible."""
    span = max((row["point"] for row in rows), default=0.0) or 1.0

    def above(place: int) -> int:
        row = rows[place]
        there = (other["point"] for other in rows[place + 1 :] if other["epsilon"] == row["epsilon"])
        return len([point for point in there if abs(point - row["point"]) < _NEAR * span])

    return [row | {"size": _DOT * (1 + 2 * above(place))} for place, row in enumerate(rows)]


def _shown(strong: float, weak: float) -> alt.OpacityValue:
    """Return an opacity: `weak` for a mechanism if only others are highlighted, else `strong`."""
    chosen = "length(highlight) == 0 || indexof(highlight, datum.mechanism) >= 0"
    return alt.OpacityValue(weak, condition={"test": chosen, "value": strong})


def _points(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one panel's rows: values for drawing, clipped at the ceiling, and unclipped values for tooltips."""
    shown = within_ceiling(estimates).with_columns(budgets=pl.len().over("mechanism"))
    columns = ("mechanism", "epsilon", "loss", "point", "upper", "ceiling", "budgets")
    return [
        {
            **row,
            "above": full["upper"] > full["ceiling"],
            "interval": loss_interval(full),
            "plug_in": nats(full["point"], full["ceiling"]),
            "correct": f"{full['successes']:,} of {full['trials']:,} ({share(full['success_rate'])})",
            "solid": full["released"] and full["validated"],
            "sees": f"{full['sees']}{'' if full['released'] else ', not released'}"
            f"{'' if full['validated'] else ', beyond its validated k'}",
        }
        for row, full in zip(shown.select(columns).to_dicts(), estimates.to_dicts(), strict=True)
    ]


def _top(exact: pl.DataFrame) -> float:
    """Return the value at which exact losses are clipped, which is above all finite losses."""
    columns = {column for measure in MEASURES.values() for column in measure}
    finite = [v for v in exact.select(columns).to_numpy().ravel() if math.isfinite(v)]
    return 1.3 * max(1.0, *finite)


def _exact_points(exact: pl.DataFrame, measure: tuple[str, str, str], top: float) -> list[dict[str, Any]]:
    """Return one panel's rows of exact losses. above: True for an infinite loss, or if only a lower bound is known."""
    low, high, dot = measure
    rows = (
        exact.drop_nulls(measure)
        .sort("mechanism", "epsilon")
        .with_columns(budgets=pl.len().over("mechanism"))
        .to_dicts()
    )
    return [
        {
            **{name: row[name] for name in ("mechanism", "epsilon", "budgets")},
            **{to: min(row[of], top) for to, of in (("loss", low), ("upper", high), ("point", dot))},
            **{f"{name}_in_words": unbounded(row[name]) for name in ("median", "q95", "worst", "relative_epsilon")},
            "in_words": exactly(row),
            "above": not math.isfinite(row[high]) or row["method"].startswith(AT_LEAST),
            "solid": row["released"],
            "sees": f"{row['sees']}{'' if row['released'] else ', not released: an upper bound for the text'}",
        }
        for row in rows
    ]
