"""The loss against the claim for a whole text, composed in two ways (TeDA, figure 7). Losses are in nats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import polars as pl

from epsilometer.report.figures import WIDTH, Figure, by_name, epsilon_axis, joined, styles, wide_axis

WAYS = {"by_words": "epsilon × mean words (TeDA's reading)", "composed": "composed over privatised units (ours)"}
_HEIGHT = 190


def figure(name: str, rows: Iterable[Mapping[str, Any]], mechanisms: Iterable[str]) -> Figure | None:
    """Return a figure with a row of panels for each data set, and a panel for each way to compose the claim.

    Returns None if no mechanism with a loss has a claim that is composed in both ways.

    name: the name of the figure's file. rows: `dataset`, `mechanism`, the claims `by_words` and `composed` in nats
    (None without such a claim), and the loss `point`. A mechanism whose claim is for whole texts has no `by_words`.
    Both panels show such a claim at `composed`, as in TeDA's figure. Infinite losses are at the top. mechanisms: all
    mechanisms of the audit, so that styles agree between figures.
    """
    every = [row for row in rows if row["composed"] and row["point"] is not None]
    if not any(row["by_words"] for row in every):
        return None
    top = 1.1 * max(1.0, *(row["point"] for row in every if math.isfinite(row["point"])))
    table = pl.DataFrame(
        [
            {
                "dataset": row["dataset"],
                "mechanism": row["mechanism"],
                "point": min(row["point"], top),
                "way": way,
                "epsilon": at,
            }
            for row in every
            for way in WAYS
            for at in [row[way] or row["composed"]]
        ]
    )
    colour, shape = by_name(styles(mechanisms), table["mechanism"].unique().sort().to_list())
    axis, scale = wide_axis(top)
    x = epsilon_axis(table["epsilon"]).title("claim for a whole text (nats)")
    datasets: dict[str, list[dict[str, Any]]] = {}

    def panel(dataset: str, way: str) -> alt.LayerChart | alt.FacetChart:
        here = f"composed {dataset} {way}"
        datasets[here] = table.filter(dataset=dataset, way=way).sort("mechanism", "epsilon").to_dicts()
        base, y = alt.Chart(alt.NamedData(here)), alt.Y("point:Q", title="loss (nats)", scale=scale, axis=axis)
        layers = (
            base.mark_line(strokeWidth=1.4).encode(x, y, colour),
            base.mark_point(filled=True, size=40, opacity=1).encode(x, y, colour, shape),
        )
        return alt.layer(*layers).properties(width=WIDTH // 2 - 150, height=_HEIGHT, title=f"{dataset}: {WAYS[way]}")

    names = table["dataset"].unique().sort()
    panels = [panel(dataset, way) for dataset in names for way in WAYS]
    words = "Loss against the claim for a whole text, composed in two ways"
    return Figure(name, words, joined(panels, datasets, columns=len(WAYS), spacing=30))
