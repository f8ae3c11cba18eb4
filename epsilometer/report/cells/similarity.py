"""The similarity of rewrites to their texts: distributions by two metrics, and means by all metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from altair import SCHEMA_URL

from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.cells.tables import SIMILARITIES
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import CONFIG, GRID, INK, MUTED, WIDTH, Figure, Specification, Style, file_name, styles
from epsilometer.report.rows import CELL
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, record
from epsilometer.report.wording import budget, confidence

QUARTERS = (0.25, 0.5, 0.75)
_SHOWN = 2  # number of metrics with figures on the page
_BINS = 20
_HEIGHT = 74  # height of a panel, in pixels
_SIDE_BY_SIDE = 8  # maximum number of mechanisms in a row of panels
_LARGE = 10.0  # metrics with values above this have a logarithmic axis
_TOOLTIP = (("lower", "a quarter below"), ("median", "half below"), ("upper", "a quarter above"), ("texts", "texts"))


def section(results: TextResults) -> Section | None:
    """Return the similarity by the cosine and the first other metric of params.yaml, and means of all metrics."""
    each = results.table("data/similarities.parquet", SIMILARITIES)
    if each.is_empty():
        return None
    shown = ["cosine", *results.params.utility.metrics][:_SHOWN]
    figures = [
        Figure(
            file_name("kept", name),
            f"Similarity of rewrites to texts of data set {name}",
            distributions(each.filter(pl.col("metric").is_in(shown)), name, results.estimates["mechanism"]),
            heading=name,
        )
        for name in each["dataset"].unique().sort()
    ]
    words = (
        "The similarity of every rewrite to its text. A high value does not mean that a rewrite is good, nor a low "
        "value that it is private. Each budget has a vertical histogram; line: the middle half of the texts; dot: the "
        "median. `epsilometer results export --table similarities` writes all metrics of every text."
    )
    means = closeness(each, results.params.audit.alpha)
    return Section(
        "kept", "Similarity", "Similarity of rewrites to their texts", [words], blocks=[*figures, means], folded=True
    )


def distributions(each: pl.DataFrame, dataset: str, mechanisms: Iterable[str]) -> Specification:
    """Return vertical histograms for each metric (rows) and mechanism (columns), with budgets from left to right.

    A line marks the middle half of the texts, a dot the median. mechanisms: all mechanisms of the audit, for equal
    styles in all figures.
    """
    here = each.filter(dataset=dataset).drop_nulls("value")
    style = styles(mechanisms)
    names = here["mechanism"].unique().sort().to_list()
    metrics = here["metric"].unique(maintain_order=True).to_list()
    most = max(here.group_by("mechanism").agg(pl.col("epsilon").n_unique())["epsilon"])
    datasets: dict[str, list[dict[str, Any]]] = {}
    groups = []
    for start in range(0, len(names), _SIDE_BY_SIDE):
        group, panels = names[start : start + _SIDE_BY_SIDE], []
        width = min(200, (WIDTH - 110) // min(len(names), _SIDE_BY_SIDE) - 12)
        for metric in metrics:
            values = here.filter(metric=metric)
            ends = _ends(values["value"])
            for name in group:
                key = f"{dataset} {metric} {name}"
                shapes, marks = _shapes(values.filter(mechanism=name), ends)
                datasets[f"shapes {key}"], datasets[f"marks {key}"] = shapes, marks
                panel = _panel(
                    key, metric, ends, most, style=style[name], first=name == group[0], last=metric == metrics[-1]
                )
                title = {"title": {"text": name, "fontSize": 10, "offset": 5}} if metric == metrics[0] else {}
                panels.append({**panel, "width": width, "height": _HEIGHT, **title})
        groups.append({"concat": panels, "columns": len(group), "spacing": {"row": 8, "column": 12}})
    return {"$schema": SCHEMA_URL, "vconcat": groups, "datasets": datasets, "config": CONFIG}


def _panel(
    key: str,
    metric: str,
    ends: tuple[float, float],
    most: int,
    style: Style,
    first: bool,
    last: bool,
) -> Specification:
    """Return a panel in plain Vega-Lite, because altair takes 4 s to build and check 60 panels.

    most: largest number of budgets of a mechanism; first: True for a row's first panel; last: True in the last row.
    """
    large = ends[1] > _LARGE
    quiet = {"ticks": False, "domain": False, "labelFontSize": 9}
    x = {
        "field": "left",
        "type": "quantitative",
        "title": "nominal ε" if last and first else None,
        "scale": {"domain": [-0.6, most - 0.4], "nice": False},
        "axis": quiet | {"labels": False, "grid": False, "titlePadding": 16, "titleFontSize": 10},
    }
    y = {
        "field": "low",
        "type": "quantitative",
        "title": metric.replace("_", " ") if first else None,
        "scale": {"type": "log" if large else "linear", "domain": list(ends), "nice": False},
        "axis": quiet | {"labels": first, "gridColor": GRID, "titleFontSize": 11}
        | ({"tickCount": 2, "format": "~s"} if large else {"tickCount": 3, "format": "~g"}),
    }  # fmt: skip
    tooltip = [{"field": "label", "type": "nominal", "title": "nominal ε"}] + [
        {"field": field, "type": "quantitative", "title": title, "format": ".3~g"} for field, title in _TOOLTIP
    ]
    place = {"field": "place", "type": "quantitative"}
    middle = {"field": "median", "type": "quantitative"}
    budgets = {  # text, because an axis leaves out labels that are close together
        "data": {"name": f"marks {key}"},
        "mark": {"type": "text", "baseline": "top", "dy": 5, "fontSize": 8.5, "color": MUTED},
        "encoding": {"x": place, "y": {"value": _HEIGHT}, "text": {"field": "label"}},
    }
    return {
        "layer": [
            {
                "data": {"name": f"shapes {key}"},
                "mark": {"type": "rect", "color": style.colour, "opacity": 0.45},
                "encoding": {"x": x, "y": y, "x2": {"field": "right"}, "y2": {"field": "high"}},
            },
            {
                "data": {"name": f"marks {key}"},
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.4},
                "encoding": {"x": place, "y": middle | {"field": "lower"}, "y2": {"field": "upper"}},
            },
            {
                "data": {"name": f"marks {key}"},
                "mark": {"type": "point", "filled": True, "size": 20, "opacity": 1, "color": INK},
                "encoding": {"x": place, "y": middle, "tooltip": tooltip},
            },
            *([budgets] if last else []),
        ]
    }


def _ends(values: pl.Series) -> tuple[float, float]:
    """Return the range of a metric's axis: 0 to 1, wider if values exceed it; the range of values if some are large."""
    ordered = values.sort()
    low, high = float(ordered[0]), float(ordered[-1])
    return (max(low, 1e-3), high) if high > _LARGE else (min(0.0, low), max(1.0, high))


def _shapes(part: pl.DataFrame, ends: tuple[float, float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the bars of histograms, and the quartiles, by budget. The longest bars of all budgets are equally wide."""
    low, high = ends
    large = high > _LARGE
    edges = np.geomspace(low, high, _BINS + 1) if large else np.linspace(low, high, _BINS + 1)
    edges[0], edges[-1] = low, high
    shapes, marks = [], []
    for place, ((epsilon,), rows) in enumerate(part.sort("epsilon").group_by("epsilon", maintain_order=True)):
        values = rows["value"].to_numpy().clip(low, high)
        counts, _ = np.histogram(values, edges)
        for number in np.flatnonzero(counts).tolist():
            half = round(0.42 * float(counts[number] / counts.max()), 3)
            shapes.append(
                {
                    "left": place - half,
                    "right": place + half,
                    "low": float(edges[number]),
                    "high": float(edges[number + 1]),
                }
            )
        lower, median, upper = np.quantile(values, QUARTERS).tolist()
        label = budget(None if epsilon is None else float(epsilon))
        marks.append(
            {"place": place, "label": label, "texts": len(rows), "lower": lower, "median": median, "upper": upper}
        )
    return shapes, marks


def closeness(each: pl.DataFrame, alpha: float) -> Table:
    """Return a table of means of every metric. The cosine's interval counts the rewrites of a text as one case."""
    rows = []
    for _, part in each.group_by(CELL, maintain_order=True):
        row = record(part.row(0, named=True), NAMED)
        for (metric,), values in part.drop_nulls("value").group_by("metric", maintain_order=True):
            mean, low, high = mean_interval(values["value"], values["source"], alpha)
            row[str(metric)] = f"{mean:.3f}" + (f" ({low:.3f} to {high:.3f})" if metric == "cosine" else "")
        rows.append(row)
    caption = f"Means, with {confidence(alpha, 2)} intervals of the cosine."
    return Table("What rewrites keep", caption, rows, off_page=True)
