"""Tables, sentences and a figure about the attackers who infer an attribute from released texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from epsilometer.auditing.attributes.attackers import (
    ADAPTIVE,
    AUGMENTED,
    AUTHOR,
    CLEAN,
    DETECTOR,
    FOLDED,
    LLM,
    RELABELLED,
    STATIC,
)
from epsilometer.auditing.results.comparison import Right, compare_strongest, holm
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.project.sections import Dataset
from epsilometer.report.figures import COLOURS, MUTED, SHAPES, WIDTH, Specification, joined
from epsilometer.report.rows import CELL
from epsilometer.report.table import NAMED, Table, record, records
from epsilometer.report.wording import as_number, at_budget, confidence, inflected, listed, loss_between, share

LEARNED = (ADAPTIVE, AUGMENTED, RELABELLED, FOLDED)  # the attackers that learn from rewrites
SHOWN = (STATIC, *LEARNED, LLM)  # the attackers that read single texts, in the order of tables
LABEL = ("dataset", "label")


def infer_tables(attackers: pl.DataFrame) -> Iterator[Table]:
    """Yield a table of attackers per data set and attribute; with several kinds of classifier, also one by kind."""
    inferred = infer_rows(attackers)
    for dataset, label in dict.fromkeys((row["dataset"], row["label"]) for row in inferred):
        here = [row for row in inferred if (row["dataset"], row["label"]) == (dataset, label)]
        names = [name for name in (CLEAN, *SHOWN) if any(name in row["accuracies"] for row in here)]
        rows = [
            record(row, "mechanism: {mechanism} | epsilon: {epsilon:budget}")
            | {name: as_number(row["accuracies"].get(name)) for name in names}
            | {"attribute loss": loss_between(row)}
            | record(row, "strongest: {best_attacker} | verdict: {verdict}")
            for row in here
        ]
        caption = f"Balanced accuracy of each attacker; chance is {here[0]['chance']:.2f}."
        yield Table(f"{dataset}: who infers {label}", caption, rows)
        yield from kind_table(attackers.filter(dataset=dataset, label=label), f"{dataset}: who infers {label}")


def kind_table(attackers: pl.DataFrame, heading: str) -> Iterator[Table]:
    """Yield a table of each attacker's balanced accuracy by kind of classifier, if there are several kinds.

    The table shows only attackers that read single texts.
    """
    single = attackers.filter(pl.col("texts_each") == 1, pl.col("attacker").is_in([CLEAN, STATIC, *LEARNED]))
    if single["kind"].n_unique() < 2:
        return
    names = [name for name in (CLEAN, STATIC, *LEARNED) if name in single["attacker"]]
    best = single.group_by(*CELL, "kind", "attacker").agg(pl.max("balanced_accuracy"))
    rows = best.pivot("attacker", index=[*CELL, "kind"], values="balanced_accuracy").sort(
        "kind", "mechanism", "epsilon"
    )
    columns = "mechanism: {mechanism} | epsilon: {epsilon:budget} | classifier: {kind} | "
    lines = records(rows, columns + " | ".join(f"{name}: {{{name}:number}}" for name in names))
    yield Table(f"{heading}, by kind of classifier", "Balanced accuracy; the largest over seeds.", lines, folded=True)


def infer_rows(attackers: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row per cell and label, with each attacker's balanced accuracy and the strongest attacker's loss.

    The rows cover attackers that read single texts. An attacker's accuracy is the largest over its kinds and seeds.
    """
    single = attackers.filter(pl.col("texts_each") == 1, pl.col("attacker").is_in([CLEAN, *SHOWN]))
    best = single.group_by(*CELL, "label", "attacker").agg(pl.max("balanced_accuracy"), pl.first("classes"))
    chosen = attackers.filter(attacker=STRONGEST)
    rows = []
    for row in chosen.sort("dataset", "label", "loss", "mechanism", "epsilon").to_dicts():
        here = best.filter(pl.col(name).eq_missing(pl.lit(row[name])) for name in (*CELL, "label"))
        accuracies = dict(here.select("attacker", "balanced_accuracy").iter_rows())
        rows.append({**row, "accuracies": accuracies, "chance": 1 / row["classes"]})
    return rows


def further_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of attackers who do more than read one text. rows: as `further_rows` returns them."""
    sizes = sorted({size for row in rows for size in row["authors"]})
    columns = [f"{size} {inflected(size, 'text', 'texts')}: {{texts_{size}:share}}" for size in sizes]
    models = "detector: {detector:share} | model, unusable: {unusable:share} | model, top 3: {top_3:share}"
    line = " | ".join([NAMED + " | attribute: {label}", *columns, models])
    lines = [record({**row, **{f"texts_{size}": row["authors"].get(size) for size in sizes}}, line) for row in rows]
    caption = (
        "Balanced accuracy of attackers who read several texts of one author together, and of a detector that "
        "distinguishes rewrites from originals (chance: 50 %). Language models: the share of answers without a known "
        "class, and the share of answers whose first three classes contain the right one."
    )
    heading = "Several texts of one author, language models, and whether rewriting shows"
    return Table(heading, caption, lines, folded=True)


def further_rows(attackers: pl.DataFrame, attributes: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row per cell and attribute about attackers who do more than read one text.

    Each value is the largest over kinds and seeds. Rows without any value are left out. The values are:

    - authors: the balanced accuracy by the number of texts of one author that are read together;
    - detector: the balanced accuracy of distinguishing rewrites from originals;
    - unusable: the share of a language model's answers without a known class;
    - top_3: the share of a language model's answers whose first three classes contain the right one.
    """
    best = pl.max("balanced_accuracy")
    shows = {
        tuple(cell): accuracy
        for *cell, accuracy in attackers.filter(attacker=DETECTOR).group_by(CELL).agg(best).iter_rows()
    }
    rows = []
    inferring = attackers.filter(pl.col("label").is_in([*attributes])).sort(*LABEL, "mechanism", "epsilon")
    for (*cell, label), part in inferring.group_by(*CELL, "label", maintain_order=True):
        models = part.filter(attacker=LLM)
        row = {
            **dict(zip(CELL, cell, strict=True)),
            "label": label,
            "authors": dict(part.filter(attacker=AUTHOR).group_by("texts_each").agg(best).iter_rows()),
            "detector": shows.get(tuple(cell)),
            "unusable": models["unusable"].max(),
            "top_3": models["top_3"].max(),
        }
        if row["authors"] or row["detector"] is not None or len(models):
            rows.append(row)
    return rows


def stopped_sentences(attackers: pl.DataFrame, alpha: float) -> list[str]:
    """Return a sentence per label: the methods that stop a static attacker, and how often retraining helps attackers.

    McNemar's exact test compares two attackers on the same test texts, and assumes independent texts. P-values are
    corrected for the number of methods (Holm) and for the choice of the best attacker (`comparison.compare_strongest`).
    """
    sentences = []
    single = attackers.filter(pl.col("texts_each") == 1)
    for (dataset, label), part in single.sort(*LABEL, "mechanism").group_by(LABEL, maintain_order=True):
        cells = [cell for _, cell in part.group_by(CELL, maintain_order=True)]
        falls = [compare_strongest(_right(cell, STATIC), _right(cell, CLEAN)) for cell in cells]
        stopped = [
            cell
            for cell, fall, p in zip(cells, falls, holm([fall.p_value for fall in falls]), strict=True)
            if p <= alpha and fall.first_only < fall.second_only
        ]
        learnt = [(_right(cell, STATIC), _right(cell, *LEARNED)) for cell in stopped]
        gains = [compare_strongest(static, again) for static, again in learnt if again]
        back = [
            p <= alpha and gain.first_only < gain.second_only
            for gain, p in zip(gains, holm([gain.p_value for gain in gains]), strict=True)
        ]
        clean = part.filter(attacker=CLEAN).select(pl.max("balanced_accuracy"), 1 / pl.max("classes")).row(0)
        of_clean = f"in {share(clean[0])} of clean texts; a guess is right in {share(clean[1])}"
        names = listed([cell["mechanism"][0] for cell in stopped])
        stops = (
            f"Of {len(cells)} methods without an epsilon, {names} {inflected(len(stopped), 'is', 'are')} shown to stop "
            "a classifier that never saw rewrites"
            if stopped
            else f"None of {len(cells)} methods without an epsilon is shown to stop a classifier "
            "that never saw rewrites"
        )
        learned = (
            f"; a classifier that learned from rewrites does significantly better {_count(sum(back), len(back))}"
            if back
            else ""
        )
        at = f"McNemar's test at {confidence(alpha, 2)}, which assumes independent texts"
        sentences.append(f"On {dataset} a classifier infers {label} correctly {of_clean}. {stops}{learned} ({at}).")
    return sentences


def _right(cell: pl.DataFrame, *attackers: str) -> Right:
    """Return the hits of these attackers on a cell, by attacker, kind and seed."""
    rows = cell.filter(pl.col("attacker").is_in(attackers)).select("attacker", "kind", "seed", "hits").iter_rows()
    return {f"{name} {kind} {seed}": np.array(hits, bool) for name, kind, seed, hits in rows}


def _count(some: int, of: int) -> str:
    return f"against {'it' if of == some == 1 else f'{some} of {of}'}"


def author_sentence(attackers: pl.DataFrame, datasets: Mapping[str, Dataset]) -> list[str]:
    """Return sentences on the accuracy of an attacker who reads several texts of one group.

    In a data set without groups, the attacker reads several texts of one class.
    """
    authors = attackers.filter(attacker=AUTHOR)
    means = (
        authors.group_by("dataset", "label", "texts_each").agg(pl.mean("balanced_accuracy")).sort(*LABEL, "texts_each")
    )
    shared = {name: " and ".join(dataset.group) or "class" for name, dataset in datasets.items()}
    return [
        f"An attacker who reads several texts of one {shared[dataset]} on {dataset} infers {label} in "
        + listed([f"{share(row['balanced_accuracy'])} with {row['texts_each']}" for row in part.to_dicts()])
        + ", on average over methods."
        for (dataset, label), part in means.group_by(LABEL, maintain_order=True)
        if len(part) > 1
    ]


def detector_sentence(attackers: pl.DataFrame) -> list[str]:
    """Return a sentence with the smallest and the largest accuracy of a detector of rewrites, over cells."""
    detectors = attackers.filter(attacker=DETECTOR)
    if detectors.is_empty():
        return []
    rows = (
        detectors.group_by(CELL, maintain_order=True)
        .agg(pl.max("balanced_accuracy"))
        .sort("balanced_accuracy")
        .to_dicts()
    )
    least, most = rows[0], rows[-1]
    return [
        f"A detector distinguishes rewrites from originals in {share(least['balanced_accuracy'])} of cases "
        f"({at_budget(least['mechanism'], least['epsilon'])}) to {share(most['balanced_accuracy'])} "
        f"({at_budget(most['mechanism'], most['epsilon'])}); a random guess is right in half of them."
    ]


def attacker_figure(attackers: pl.DataFrame) -> Specification:
    """Return the figure of attackers' balanced accuracy: a panel per data set and label, with a line per cell.

    The cell whose strongest attacker has the smallest accuracy comes first.
    """
    colours = dict(zip(SHOWN, COLOURS, strict=False))
    rows = [
        {
            "panel": f"{row['dataset']}: {row['label']}",
            "cell": at_budget(row["mechanism"], row["epsilon"]),
            "attacker": name,
            "accuracy": row["accuracies"][name],
            "most": max(value for key, value in row["accuracies"].items() if key != CLEAN),
            "clean": row["accuracies"].get(CLEAN),
            "chance": row["chance"],
        }
        for row in infer_rows(attackers)
        for name in SHOWN
        if row["accuracies"].get(name) is not None
    ]
    names = [name for name in SHOWN if any(row["attacker"] == name for row in rows)]
    datasets: dict[str, list[dict[str, Any]]] = {}
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    width = (WIDTH - 60) // min(len(panels), 3) - 190

    def panel(name: str) -> alt.LayerChart | alt.FacetChart:
        datasets[name] = [row for row in rows if row["panel"] == name]
        base = alt.Chart(alt.NamedData(name))
        low = min(0.9 * min(row["chance"] for row in datasets[name]), *(row["accuracy"] for row in datasets[name]))
        scale = alt.Scale(domain=[low, 1], nice=False)
        y = alt.Y(
            "cell:N", sort=alt.EncodingSortField("most", op="max"), title=None, axis=alt.Axis(labelLimit=180, grid=True)
        )
        x = alt.X(
            "accuracy:Q",
            title="balanced accuracy",
            scale=scale,
            axis=alt.Axis(format=".0%", tickCount=5),
        )
        rule = base.transform_aggregate(clean="max(clean)", chance="max(chance)")
        shape = alt.Shape("attacker:N", scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])))
        colour = alt.Color(
            "attacker:N",
            scale=alt.Scale(domain=names, range=[colours[n] for n in names]),
            legend=alt.Legend(title=None),
        )
        tips = [alt.Tooltip("cell:N"), alt.Tooltip("attacker:N"), alt.Tooltip("accuracy:Q", format=".1%")]
        return alt.layer(
            rule.mark_rule(color=MUTED, strokeDash=[1, 3]).encode(alt.X("chance:Q", scale=scale)),
            rule.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(alt.X("clean:Q", scale=scale)),
            base.mark_point(filled=True, size=46, opacity=0.9).encode(x, y, colour, shape, tooltip=tips),
        ).properties(width=width, height=alt.Step(17), title=alt.TitleParams(name, offset=8))

    return joined(map(panel, panels), datasets, columns=3, spacing=30)
