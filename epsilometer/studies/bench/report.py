"""The truth bench as tables and a picture: estimators' bounds compared with the truth. Losses are in nats."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from epsilometer.report import archive
from epsilometer.report.archive import Run
from epsilometer.report.figures import COLOURS, INK, MUTED, SHAPES, Figure, specify
from epsilometer.runtime.machine import hardware
from epsilometer.studies.bench.estimators import ERROR, OURS

_NAME = "truth"
_BEYOND = 12.0  # nats: the position of infinite values in the picture
_LINEAR = 0.1  # nats: the picture's axis is about linear below this value, and logarithmic above
_DRAWN = ("success rate", "abstention")


def write(table: pl.DataFrame, folder: Path) -> None:
    """Write the tables and truth.svg to a folder with `archive.write`. table: rows of schema `TRUTH`."""
    most = max(table["samples"].to_list())
    about = [
        "`a (b)`: a is the median lower bound over seeds, b the share of seeds whose bound is at most the truth; "
        f"estimators promise at least {1 - ERROR:.0%}. "
        "*pure* is the largest loss of the pair; with a delta, it is the smallest valid "
        "epsilon. *at 1 %* is the best ln(TPR / FPR) at a false-positive rate of 1 %. *guess* is the loss that follows "
        "from the best adversary's success rate. *exact* is the interval between the computed bounds on *guess*. *ms* "
        "is the time of all estimators. The success rate is a lower bound on *guess*, the other estimators on *pure*.",
        f"![Bounds compared with the truth]({_NAME}.svg)",
        "*Black ticks: the pure loss (infinite at the right edge). Grey ticks: the largest loss that the success rate "
        f"can prove. Points: median bounds from {most:,} samples. Lines: from the smallest to the largest bound of a "
        "seed.*",
    ]
    grids = [
        archive.grid(f"{count:,} samples, {part['seeds'][0]} seeds", beside(part), note=pooled(part))
        for (count,), part in table.group_by("samples", maintain_order=True)
    ]
    day = time.strftime("%Y-%m-%d")
    run = Run(
        "The truth bench", "epsilometer check estimators", date=day, hardware=hardware(), about=about, tables=grids
    )
    archive.write(run, folder, {f"{_NAME}.svg": figure(table.filter(samples=most)).svg})


def beside(part: pl.DataFrame) -> pl.DataFrame:
    """Return a table with a row per mechanism: its true losses, then a column per estimator."""
    rows = []
    for (name,), lines in part.group_by("mechanism", maintain_order=True):
        figures = lines.row(0, named=True)
        exact = f"{figures['exact_low']:.4g} to {figures['exact_high']:.4g}"
        row = {
            "mechanism": name,
            "pure": figures["pure"],
            "at 1 %": figures["at_rate"],
            "guess": figures["guess"],
            "exact": exact,
        }
        said = {r["estimator"]: f"{r['bound']:.3f} ({r['coverage']:.3g})" for r in lines.to_dicts()}
        rows.append(row | said | {"ms": 1000 * lines["seconds"].sum()})
    return pl.DataFrame(rows, infer_schema_length=None)


def pooled(part: pl.DataFrame) -> str:
    """Return a sentence that counts, for each estimator, the bounds above the truth over all mechanisms."""
    counts = part.group_by("estimator", maintain_order=True).agg(pl.col("above").sum(), pl.col("seeds").sum())
    said = (f"{name} {above} of {seeds:,}" for name, above, seeds in counts.iter_rows())
    return f"Bounds above the truth, over all mechanisms: {', '.join(said)}."


def figure(part: pl.DataFrame) -> Figure:
    """Return the picture of the bounds at one number of samples, a line per mechanism."""
    order = part["mechanism"].unique(maintain_order=True).to_list()
    y = alt.Y("mechanism:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    scale = alt.Scale(type="symlog", constant=_LINEAR, domain=[0, _BEYOND], nice=False)
    ticks = alt.Axis(values=[0, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8], title="loss, nats", format="~g", grid=True)
    truths = alt.Chart(alt.NamedData("truths")).mark_tick(thickness=2.5, size=11)
    bounds = alt.Chart(alt.NamedData("bounds")).mark_point(filled=True, size=48, opacity=0.9)
    names = [estimator.name for estimator in OURS if estimator.name in _DRAWN]
    legend = alt.Legend(title=None, orient="top")
    chart = alt.layer(
        truths.encode(y=y, x=alt.X("loss:Q", scale=scale, axis=ticks), color=alt.Color("colour:N", scale=None)),
        alt.Chart(alt.NamedData("bounds"))
        .mark_rule()
        .encode(y=y, x=alt.X("least:Q", scale=scale), x2="largest:Q", color=_by(alt.Color, names, COLOURS, legend)),
        bounds.encode(
            y=y,
            x=alt.X("bound:Q", scale=scale),
            color=_by(alt.Color, names, COLOURS, legend),
            shape=_by(alt.Shape, names, SHAPES, legend),
        ),
    ).properties(width=640, height=alt.Step(14))
    facts = part.unique("mechanism", maintain_order=True).with_columns(pl.col("pure").clip(upper_bound=_BEYOND))
    lines = [
        {"mechanism": row["mechanism"], "loss": min(row[kind], _BEYOND), "colour": colour}
        for row in facts.to_dicts()
        for kind, colour in (("guess", MUTED), ("pure", INK))
    ]
    bounds = part.filter(pl.col("estimator").is_in(names)).select("mechanism", "estimator", "bound", "least", "largest")
    words = "Median lower bounds by the success rate and by abstention, and the true loss, a line per mechanism."
    return Figure(_NAME, words, specify(alt.hconcat(chart), {"truths": lines, "bounds": bounds.to_dicts()}))


def _by(channel: Any, names: list[str], values: tuple[str, ...], legend: alt.Legend) -> Any:
    return channel("estimator:N", scale=alt.Scale(domain=names, range=list(values[: len(names)])), legend=legend)
