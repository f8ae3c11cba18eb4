"""What rewrites keep: distributions of every metric, examples at the quartiles, identifiers that survive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from altair import SCHEMA_URL

from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.leakage import ALL
from epsilometer.core.tables import Schema
from epsilometer.report.figures import CONFIG, GRID, INK, MUTED, WIDTH, Figure, Specification, Style, styles
from epsilometer.report.rows import CELL
from epsilometer.report.section import Section
from epsilometer.report.wording import budget, confidence, metric_value, share
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.tables import SIMILARITIES, SIMILARITY

QUARTILES: Schema = {  # a row a cell, epsilon and quarter: the trial whose cosine stands there, and its texts
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "quarter": pl.Float64,
    "trial": pl.Int64,
    "original": pl.String,
    "rewrite": pl.String,
}
QUARTERS = (0.25, 0.5, 0.75)
_BINS = 20
_HEIGHT = 74  # of a panel, in pixels
_SIDE_BY_SIDE = 8  # mechanisms in one row of panels
_LARGE = 10.0  # metrics beyond this have a logarithmic axis
_TOOLTIP = (("lower", "a quarter below"), ("median", "half below"), ("upper", "a quarter above"), ("texts", "texts"))


def section(results: TextResults) -> Section | None:
    """Every text beside its rewrite, by all metrics; texts of public data sets alone."""
    each = results.table("data/similarities.parquet", SIMILARITIES)
    if each.is_empty():
        return None
    alpha, mechanisms = results.params.audit.alpha, results.estimates["mechanism"]
    summary = results.table("data/similarity.parquet", SIMILARITY)
    leakage = results.table("data/leakage.parquet", LEAKAGE)
    figures = {
        name: Figure(
            f"kept-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}",
            f"What the rewrites of data set {name} keep",
            distributions(each, name, mechanisms),
        )
        for name in each["dataset"].unique().sort()
    }
    return Section(
        id="kept",
        link="What is kept",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "figures": figures,
            "means": means(summary, each, alpha),
            "leaks": list(leaks(leakage)),
            "examples": examples(each, with_texts(quartiles(each), results)),
            "confidence": confidence(alpha, sides=2),
        },
        figures=[*figures.values()],
    )


def quartiles(each: pl.DataFrame) -> pl.DataFrame:
    """The trials whose cosine stands at the quartiles of a cell and epsilon: QUARTILES without the texts.

    The rank of a quarter q among n is round(q (n - 1)), counted from 0; of equal cosines the earlier trial's is lower.
    """
    rows = []
    cosines = each.filter(metric="cosine").drop_nulls("value").sort("value", "trial")
    for cell, part in cosines.group_by(CELL, maintain_order=True):
        trials = part["trial"].to_list()
        rows += [(*cell, quarter, trials[round(quarter * (len(trials) - 1))]) for quarter in QUARTERS]
    schema = {name: QUARTILES[name] for name in (*CELL, "quarter", "trial")}
    return pl.DataFrame(rows, schema=schema, orient="row").sort(*CELL, "quarter")


def with_texts(quartiles: pl.DataFrame, results: TextResults) -> pl.DataFrame:
    """QUARTILES: those of public data sets, each with its original and its rewrite."""
    rows = []
    public = quartiles.filter(pl.col("dataset").is_in(results.public))
    for (dataset, mechanism, epsilon), part in public.group_by(CELL, maintain_order=True):
        texts, source = results.texts(dataset), results.trials(dataset).source
        rewrites = results.rewrites(dataset, mechanism, epsilon)
        rows += [(*row, trial, texts[source[trial]], rewrites[trial]) for *row, trial in part.iter_rows()]
    return pl.DataFrame(rows, schema=dict(QUARTILES), orient="row")


def distributions(each: pl.DataFrame, dataset: str, mechanisms: Iterable[str]) -> Specification:
    """Histograms on their sides of each metric (rows) for each mechanism (columns), budgets from left to right.

    The bar is the middle half of the texts, the dot their median. mechanisms: all of the audit, so that styles agree.
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
    """A panel in plain Vega-Lite: altair takes 4 s to build and check 60 of them.

    most: budgets of any mechanism; first, last: whether it is the first of its row, and stands in the last row.
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
    budgets = {  # as text: an axis leaves out labels that stand close
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
    """The axis of a metric: 0 to 1 or what lies beyond; where that is far beyond, what there is."""
    ordered = values.sort()
    low, high = float(ordered[0]), float(ordered[-1])
    return (max(low, 1e-3), high) if high > _LARGE else (min(0.0, low), max(1.0, high))


def _shapes(part: pl.DataFrame, ends: tuple[float, float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The bars of the histograms, each budget's widest as wide as any other's; and the middle of each budget."""
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


def means(summary: pl.DataFrame, each: pl.DataFrame, alpha: float) -> dict[str, Any]:
    """metrics, and a row a cell and epsilon: its mean and the reach of its interval for each of them."""
    metrics = each["metric"].unique(maintain_order=True).to_list()
    means: dict[tuple[Any, ...], dict[str, tuple[float, float]]] = {}
    for (*cell, metric), part in each.drop_nulls("value").group_by(*CELL, "metric", maintain_order=True):
        mean, low, high = mean_interval(part["value"], part["source"], alpha)
        means.setdefault(tuple(cell), {})[str(metric)] = (mean, (high - low) / 2)
    rows = [
        {
            **dict(zip(CELL, row[:3], strict=True)),
            "texts": row[3],
            "corpus_bleu": row[4],
            "means": means.get(row[:3], {}),
        }
        for row in summary.sort(*CELL).select(*CELL, "texts", "corpus_bleu").iter_rows()
    ]
    return {"metrics": metrics, "rows": rows, "corpus": any(row["corpus_bleu"] is not None for row in rows)}


def leaks(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """A table a data set: its kinds with how many identifiers there are, and a row a mechanism and epsilon."""
    for (dataset,), part in table.sort("dataset", "mechanism", "epsilon").group_by("dataset", maintain_order=True):
        counts = dict(part.select("kind", "identifiers").iter_rows())  # the same in every cell
        kinds = sorted(counts, key=lambda kind: (kind == ALL, kind))
        rows = [
            {"mechanism": mechanism, "epsilon": epsilon, "kinds": {row["kind"]: row for row in some.to_dicts()}}
            for (mechanism, epsilon), some in part.group_by("mechanism", "epsilon", maintain_order=True)
        ]
        recorded = int(part.filter(kind=ALL)["recorded"][0])
        sentence = _leak_sentence(str(dataset), part.filter(kind=ALL))
        yield {
            "dataset": dataset, "kinds": kinds, "counts": counts, "rows": rows, "recorded": recorded,
            "sentence": sentence,
        }  # fmt: skip


def _leak_sentence(dataset: str, every: pl.DataFrame) -> str:
    """What survives of each mechanism, least and most; budgets of different mechanisms are not compared."""
    parts = []
    for (mechanism,), rows in every.sort("mechanism").group_by("mechanism", maintain_order=True):
        ends = rows["share"].sort()
        least, most = share(ends[0]), share(ends[-1])
        parts.append(f"{mechanism} {most}" if least == most else f"{mechanism} {least} to {most}")
    return f"On {dataset}, of {every['identifiers'][0]:,} identifiers, over the budgets audited: {', '.join(parts)}."


def examples(each: pl.DataFrame, quartiles: pl.DataFrame) -> list[dict[str, Any]]:
    """Groups of one data set and mechanism: the texts at the quartiles of each budget, with all their values."""
    values: dict[tuple[Any, ...], list[tuple[str, float | None]]] = {}
    for *key, metric, value in each.select(*CELL, "trial", "metric", "value").iter_rows():
        values.setdefault(tuple(key), []).append((metric, value))
    return [
        {
            "dataset": dataset,
            "mechanism": mechanism,
            "budgets": rows["epsilon"].n_unique(),
            "rows": [
                row | {"values": _listed(values.get((*(row[name] for name in CELL), row["trial"]), []))}
                for row in rows.sort("epsilon", "quarter").to_dicts()
            ],
        }
        for (dataset, mechanism), rows in quartiles.sort("dataset", "mechanism").group_by(
            "dataset", "mechanism", maintain_order=True
        )
    ]


def _listed(values: Sequence[tuple[str, float | None]]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {metric_value(value)}" for name, value in values)
