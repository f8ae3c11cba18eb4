"""The utility (worth) of rewrites at equal loss. Losses are in nats."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from typing import Any

import altair as alt
import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import CEILINGS, OUTPUTS
from epsilometer.cells.tables import SIMILARITY, ceilings_path
from epsilometer.models.classifier import TRANSFORMER
from epsilometer.report.cells.first_screen import decisions
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.use import FIXED, MEASURE, UNKNOWN, Uses, trained_on_rewrites, uses
from epsilometer.report.figures import (
    INK,
    MUTED,
    WIDTH,
    Figure,
    Specification,
    by_name,
    ends,
    joined,
    styles,
    wide_axis,
)
from epsilometer.report.rows import CELL, TAIL_ALLOWED, comparable, hardly_read, unbeaten, within_ceiling
from epsilometer.report.section import Section
from epsilometer.report.wording import at_budget, bounded, inflected, listed, loss_interval, nats, tail_words, unbounded

COSINE = MEASURE
SEEDS = 5  # minimum number of seeds to rank mechanisms by a trained classifier
_GROUP = ["dataset", "measure"]
_TOP = 1.12  # end of the axis of utility
_LABEL_HEIGHT = 0.06  # height of a label on the axis of utility
_TOOLTIP = [
    alt.Tooltip("mechanism:N"),
    alt.Tooltip("epsilon:Q", title="nominal ε", format=",~f"),
    alt.Tooltip("attack:N", title="strongest attack"),
    alt.Tooltip("interval:N", title="loss"),
    alt.Tooltip("tails:N", title="δ at 4 nats"),
    alt.Tooltip("utility:Q", format=".2f"),
]


def section(results: TextResults) -> Section | None:
    """Return utility (cosine and classifiers' F1) against loss; None without points."""
    estimates, target = results.estimates, results.params.utility.target
    similarity = results.table("data/similarity.parquet", SIMILARITY)
    downstream = trained_on_rewrites(results)
    losses = comparable(estimates, results.exact, results.params.audit.alpha)
    points = tradeoff_points(losses, similarity, downstream)
    if points.is_empty():
        return None
    points_shown = judged(points, target)
    ceilings = results.table(ceilings_path(), CEILINGS)
    tradeoff = Figure(
        "tradeoff",
        "Utility against loss",
        figure(points_shown, levels(downstream), estimates["mechanism"], target, ceilings=ceilings),
        caption="Higher is more useful, farther left is more private. A line is a mechanism, its points are its "
        "budgets (hollow if the loss is sampled and others are exact). Bars are intervals; for an exact loss they are "
        "over all pairs "
        f"of texts. A ring marks a point that no other beats in both utility and loss, among points whose δ at 4 nats "
        f"is shown to be at most {TAIL_ALLOWED:g}; intervals are "
        "ignored. Shaded: impossible for any mechanism.",
    )
    hardly = hardly_read(results.table("data/outputs.parquet", OUTPUTS))
    within = set(decisions(results).filter(limit=ALL, decision=Status.WITHIN).select(CELL).iter_rows())
    most = tradeoff_sentence(points, within, uses(results), hardly)
    said = [most, untold_sentence(points, target), attribute_sentence(downstream)]
    return Section(
        id="worth",
        link="Worth",
        heading="What a rewrite is worth at equal loss",
        words=[*filter(None, said)],
        folded=True,
        blocks=[] if points_shown.is_empty() else [tradeoff],
    )


def tradeoff_points(losses: pl.DataFrame, similarity: pl.DataFrame, downstream: pl.DataFrame) -> pl.DataFrame:
    """Return a row per data set, measure of utility, mechanism and epsilon: the loss, and the utility.

    losses: from `rows.comparable`; downstream: schema `DOWNSTREAM`. The measures are the mean cosine, and each task's
    mean macro F1 after training on rewrites, with intervals over texts.
    seeds: the macro F1 of each seed, which the interval does not cover; null for the cosine.
    best: True on the Pareto front of a data set and measure, where no other point has more utility at a lower loss. The
    front uses plug-in values, without intervals. It excludes:
    - controls;
    - points not shown to have a delta at 4 nats of at most TAIL_ALLOWED, because a mechanism that publishes half of the
      texts unchanged has the largest utility at equal average loss;
    - points trained with fewer than SEEDS seeds;
    - sampled losses, which are lower bounds, on a data set with exact losses.
    """
    measured = ["measure", "utility", "low", "high", "seeds"]
    cosine = similarity.select(
        *CELL, measure=pl.lit(COSINE), utility="cosine", low="cosine_low", high="cosine_high",
        seeds=pl.lit(None, pl.List(pl.Float64)),
    )  # fmt: skip
    trained = downstream.filter(setting="private", role="task").with_columns(measure=_measure())
    f1 = trained.group_by(*CELL, "measure", maintain_order=True).agg(
        utility=pl.mean("macro_f1"), low=pl.first("low"), high=pl.first("high"), seeds="macro_f1"
    )
    joined = losses.join(pl.concat([cosine, f1]), on=CELL, nulls_equal=True).sort(
        "dataset", pl.col("measure") == COSINE, "measure", *CELL[1:]
    )
    bounds = ["loss", "point", "upper", "ceiling", "exact", "tail_low", "tail"]
    rows = joined.select(*CELL, "attack", *bounds, "optimal", "control", *measured)
    lawful = pl.col("exact") & ~pl.col("control")
    of_one_kind = lawful | (~lawful.any().over("dataset") & ~pl.col("control"))
    rows = rows.with_columns(ranked=of_one_kind & (pl.col("tail") <= TAIL_ALLOWED).fill_null(False))
    points = rows.to_dicts()
    rivals = [point for point in points if point["ranked"]]
    best = [
        point["ranked"] and not _few(point) and unbeaten(point, rivals, _GROUP, worth="utility", loss="point")
        for point in points
    ]
    return rows.with_columns(best=pl.Series(best, dtype=pl.Boolean))


def _few(point: Mapping[str, Any]) -> bool:
    """Return True if this point has too few seeds to be ranked."""
    return point["seeds"] is not None and len(point["seeds"]) < SEEDS


def levels(downstream: pl.DataFrame) -> pl.DataFrame:
    """Return the reference levels of utility: dataset, measure, what ("clean texts" or "majority"), value."""
    names = {"clean": "clean texts", "majority": "majority"}
    base = downstream.filter(pl.col("setting").is_in(list(names)), role="task")
    return (
        _of_each_kind(base)
        .group_by("dataset", "label", "kind", "setting", maintain_order=True)
        .agg(value=pl.mean("macro_f1"))
        .select(
            "dataset",
            measure=_measure(),
            what=pl.col("setting").replace_strict(names, return_dtype=pl.String),
            value="value",
        )
    )


def _measure() -> pl.Expr:
    """Return the name of a classifier's score, with the kind of classifier unless it is a transformer."""
    other = pl.when(pl.col("kind") == TRANSFORMER).then(pl.lit("")).otherwise(", " + pl.col("kind"))
    return "macro F1 of " + pl.col("label") + other


def _of_each_kind(base: pl.DataFrame) -> pl.DataFrame:
    """Return the rows, with the row of the majority class repeated for each kind of classifier of the same label."""
    kinds = base.drop_nulls("kind").select("dataset", "label", "kind").unique(maintain_order=True)
    majority = base.filter(pl.col("kind").is_null()).drop("kind").join(kinds, ["dataset", "label"])
    return pl.concat([majority.select(base.columns), base.drop_nulls("kind")])


def tradeoff_sentence(
    points: pl.DataFrame, within: Container[tuple[Any, ...]], keeps: Uses, hardly: Container[str] = ()
) -> str:
    """Return the most useful mechanism among the cells within the limits, by data set and measure, without controls.

    within: data set, mechanism and epsilon of the cells whose decision is *within* (`DECISIONS`). keeps: the utility of
    each cell (`use.uses`). hardly: mechanisms that hardly read the texts of some data sets.
    """
    parts = []
    for (dataset, measure), table in points.filter(~pl.col("control")).group_by(_GROUP, maintain_order=True):
        met = pl.Series([cell in within for cell in table.select(CELL).iter_rows()], dtype=pl.Boolean)
        usable = table.filter(met).sort("utility", "mechanism", descending=[True, False])
        if not len(usable):
            parts.append(f"on {dataset} no measured budget keeps the limits ({measure})")
            continue
        best = usable.row(0, named=True)
        if usable.select(pl.col("seeds").list.len().min()).item() in range(SEEDS):
            parts.append(f"on {dataset} {measure} was trained for fewer than {SEEDS} seeds, too few to rank mechanisms")
            continue
        parts.append(
            f"on {dataset} {at_budget(best['mechanism'], best['epsilon'])}"
            f"{'' if best['optimal'] else ', which no optimal adversary attacks,'}"
            f"{', which hardly reads the texts of some data sets,' if best['mechanism'] in hardly else ''} "
            f"is the most useful within the limits: {measure} {best['utility']:.2f} ({best['low']:.2f} to "
            f"{best['high']:.2f}) at {'an exact' if best['exact'] else 'a measured'} loss of {nats(best['point'])} "
            f"(at most {bounded(best['upper'], best['ceiling'])}){_beside_one_text(best, keeps)}"
        )
    sentence = "; ".join(parts)
    if sentence and points["exact"].any():
        sentence = f"between texts of equal length: {sentence}"
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""


def _beside_one_text(point: Mapping[str, Any], keeps: Uses) -> str:
    """Return a comparison of a cell with one fixed sentence; empty for measures other than the cosine."""
    if point["measure"] != COSINE:
        return ""
    more = keeps.get((point["dataset"], point["mechanism"], point["epsilon"]), UNKNOWN).more
    if more is None:
        return ", not compared with one fixed sentence"
    return f", {'' if more else 'no '}more than {FIXED}"


def judged(points: pl.DataFrame, target: float) -> pl.DataFrame:
    """Return the points with a usable loss: exact, or from enough trials to prove the target loss."""
    return points.filter(pl.col("exact") | (pl.col("ceiling") > target))


def untold_sentence(points: pl.DataFrame, target: float) -> str:
    """Return a sentence on the mechanisms that the figure omits: their trials are too few to prove the target loss."""
    few = points.join(judged(points, target), on=[*CELL, "measure"], how="anti", nulls_equal=True)
    names = few.select("mechanism", "dataset").unique().sort("mechanism", "dataset").rows()
    if not names:
        return ""
    return (
        f"Not in the figure, because there are too few comparable trials to prove a loss of {target:g} "
        f"{inflected(target, 'nat', 'nats')}: {listed([f'{mechanism} on {dataset}' for mechanism, dataset in names])}."
    )


def figure(
    points: pl.DataFrame, levels: pl.DataFrame, mechanisms: Iterable[str], target: float, *, ceilings: pl.DataFrame
) -> Specification:
    """Return utility against the loss: a row of panels per data set, a panel per measure of utility.

    A line is a mechanism, and its points are budgets. points: from `tradeoff_points`; if some losses are exact, points
    with a sampled loss are hollow, and the scale is logarithmic above 1 nat. levels: dataset, measure, what, value, as
    horizontal lines. ceilings: schema `CEILINGS`; no mechanism can be above.
    """
    style = styles(mechanisms)
    names = points["mechanism"].unique().sort().to_list()
    controls = points.filter("control")["mechanism"].unique().sort().to_list()
    panels = points.select("dataset", "measure").unique(maintain_order=True).rows()
    columns = max(len([1 for other, _ in panels if other == name]) for name, _ in panels)
    columns = 2 if columns == 1 else columns
    width = min(460, (WIDTH - 140) // columns - 60)
    rows, x, top = _rows_and_axis(points)
    colour, shape = by_name(style, names, controls)
    datasets: dict[str, list[dict[str, Any]]] = {"target": [{"target": target}]}

    def panel(name: str, measure: str) -> alt.LayerChart | alt.FacetChart:
        key = f"tradeoff {name} {measure}"
        here = points.filter(dataset=name, measure=measure)
        datasets[key] = [row for row in rows if (row["dataset"], row["measure"]) == (name, measure)]
        datasets[f"levels {key}"] = _apart(levels.filter(dataset=name, measure=measure)).to_dicts()
        base, level = alt.Chart(alt.NamedData(key)), alt.Chart(alt.NamedData(f"levels {key}"))
        low, title = min(0.0, ends(here["low"])[0]), "cosine of text and rewrite" if measure == "cosine" else measure
        scale = alt.Scale(domain=[low, _TOP], nice=False)
        y, value = alt.Y("utility:Q", title=title, scale=scale), alt.Y("value:Q", title=title, scale=scale)
        impossible = alt.Chart(alt.NamedData(f"ceilings {key}")).transform_calculate(top=str(_TOP))
        of_dataset = ceilings.filter(dataset=name) if measure == COSINE else ceilings.clear()
        datasets[f"ceilings {key}"] = _to_the_edge(of_dataset, top)
        return alt.layer(
            impossible.mark_area(color=MUTED, opacity=0.15).encode(
                alt.X("nats:Q"), alt.Y("ceiling:Q", title=title, scale=scale), alt.Y2("top:Q")
            ),
            alt.Chart(alt.NamedData("target")).mark_rule(color=MUTED, strokeDash=[4, 3]).encode(alt.X("target:Q")),
            level.mark_rule(color=MUTED, strokeDash=[1, 3]).encode(value),
            level.mark_text(align="right", baseline="bottom", color=MUTED, fontSize=11).encode(
                value, x=alt.value("width"), text="what:N"
            ),
            base.mark_rule(opacity=0.35).encode(alt.X("loss:Q"), y, alt.X2("upper"), color=colour),
            base.mark_rule(opacity=0.35).encode(x, alt.Y("low:Q"), alt.Y2("high"), color=colour),
            base.transform_filter("datum.seeds")
            .transform_flatten(["seeds"])
            .mark_circle(size=9, opacity=0.6)
            .encode(x, alt.Y("seeds:Q", title=title, scale=scale), colour),
            base.mark_line(strokeWidth=1.4, opacity=0.7).encode(x, y, colour, order="epsilon:Q"),
            base.transform_filter("datum.best").mark_point(size=190, color=INK, strokeWidth=1.1).encode(x, y),
            base.transform_filter("datum.solid")
            .mark_point(filled=True, size=46, opacity=1)
            .encode(x, y, colour, shape, tooltip=_TOOLTIP),
            base.transform_filter("!datum.solid")
            .mark_point(size=46, opacity=1, strokeWidth=1.4)
            .encode(x, y, colour, shape, tooltip=_TOOLTIP),
        ).properties(width=width, height=280, title=name)

    return joined((panel(*of_panel) for of_panel in panels), datasets, columns=columns, spacing=40)


def _to_the_edge(curve: pl.DataFrame, top: float) -> list[dict[str, Any]]:
    """Return the points of a curve of ceilings up to `top` nats (the end of the axis), and add a last point at `top`.

    If the whole curve is shown, the added point has the ceiling 1, otherwise the ceiling of the point before it.
    """
    points = curve.filter(pl.col("nats") <= top).select("nats", "ceiling").sort("nats").to_dicts()
    last = 1.0 if len(points) == len(curve) else points[-1]["ceiling"]
    return [*points, {"nats": top, "ceiling": last}] if points else []


def _rows_and_axis(points: pl.DataFrame) -> tuple[list[dict[str, Any]], alt.X, float]:
    """Return the figure's rows, with losses clipped to be finite, the axis of losses, and the axis's end in nats."""
    exact = bool(points["exact"].any())
    by_law = points.filter("exact")
    largest = [v for v in (*points["ceiling"], *by_law["point"], *by_law["upper"]) if math.isfinite(v)]
    top = 1.04 * max(largest, default=1.0)
    axis, scale = wide_axis(top) if exact else (alt.Axis(tickCount=6), alt.Scale(domain=[0, top], nice=False))
    title = "empirical loss of the strongest attack on what is released (nats)"
    if exact:
        title = "average loss between texts of equal length (nats)"
    shown = within_ceiling(points.with_columns(ceiling=pl.min_horizontal("ceiling", pl.lit(top))))
    rows = [
        {
            **row,
            "solid": full["exact"] or not exact,
            "interval": f"exact, {unbounded(full['point'])}" if full["exact"] else loss_interval(full),
            "tails": tail_words(full["tail_low"], full["tail"]),
        }
        for row, full in zip(shown.to_dicts(), points.to_dicts(), strict=True)
    ]
    return rows, alt.X("point:Q", title=title, scale=scale, axis=axis), top


def _apart(levels: pl.DataFrame) -> pl.DataFrame:
    """Return the levels in descending order. A label that would overlap the label above it is merged with it."""
    rows = levels.sort("value", descending=True).to_dicts()
    shown = rows[:1]
    for row in rows[1:]:
        if shown[-1]["value"] - row["value"] < _LABEL_HEIGHT:
            shown[-1]["what"], row["what"] = f"{shown[-1]['what']}, {row['what']}", ""
        else:
            shown.append(row)
    return pl.DataFrame(rows, schema=levels.schema)


def attribute_sentence(downstream: pl.DataFrame) -> str:
    """Count, in a sentence, the cases in which an attacker trained on rewrites beats one trained on clean texts."""
    mean = downstream.filter(role="attribute").drop_nulls("mechanism")
    means = mean.group_by(*CELL, "label", "kind", "setting").agg(pl.first("low"), pl.first("high"))
    both = means.pivot("setting", index=[*CELL, "label", "kind"], values=["low", "high"]) if len(means) else means
    if not len(both):
        return ""
    worse = int((both["low_adaptive"] > both["high_static"]).sum())
    sentence = (
        "The adaptive attacker, trained on rewrites, beats the static attacker, trained on clean texts, with "
        f"disjoint intervals in {worse} of {len(both)} cases."
    )
    return sentence + (
        " An attribute that a classifier of clean texts no longer infers may still be in the rewrites." if worse else ""
    )
