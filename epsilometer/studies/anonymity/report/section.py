"""What anonymisers hide of an attribute, from whom, and what they leave of the text. Losses are in nats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from markupsafe import Markup

from epsilometer.auditing.results.comparison import Right, compare_strongest, holm
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.guarantees import stored
from epsilometer.project.sections import Dataset
from epsilometer.report.figures import (
    COLOURS,
    INK,
    MUTED,
    SHAPES,
    WIDTH,
    Figure,
    Specification,
    by_name,
    joined,
    specify,
    styles,
)
from epsilometer.report.results import Results
from epsilometer.report.rows import CELL, strongest, unbeaten
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, record, records
from epsilometer.report.wording import (
    as_number,
    at_budget,
    confidence,
    inflected,
    listed,
    loss_between,
    nats,
    proved,
    share,
)
from epsilometer.studies.anonymity.anonymizing import changed_share, difference
from epsilometer.studies.anonymity.attackers import (
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
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.tables import (
    ANONYMITY,
    ANONYMIZED,
    ATTACKERS,
    BY_LENGTH,
    OUTCOMES,
    QUALITY,
    anonymity_path,
    anonymized_path,
)

LEARNED = (ADAPTIVE, AUGMENTED, RELABELLED, FOLDED)  # from rewrites
SHOWN = (STATIC, *LEARNED, LLM)  # of single texts, in the table's order
CLOSE = 0.03  # in macro F1, of clean texts, within which the task counts as kept
QUARTERS = (0.25, 0.5, 0.75)
_SHARES = ("rs_all", "rs", "ur", "pa", "coverage", "ur_released", "pa_released")
_LABEL = ["dataset", "label"]


def section(results: Results[AnonymityParams]) -> Section | None:
    """Success over all texts, attackers who know the method, and loss of attribute and text; absent without cells."""
    measured, validated = tables_of(results, "anonymity", ANONYMITY), validation_rows(results)
    if measured.is_empty() and not validated:
        return None
    every = tables_of(results, "attackers", ATTACKERS)
    attackers = every.filter(pl.col("label").is_in({*measured["attribute"]}))  # of attributes: without detectors
    losses, alpha = strongest(results.estimates), results.params.audit.alpha
    points = against(attackers, measured, losses)
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    unbudgeted = attackers.filter(pl.col("epsilon").is_null(), ~pl.col("mechanism").is_in(controls))
    stopped = stopped_sentences(unbudgeted, alpha)
    sentences = [
        *stopped,
        *held_sentence(losses, measured),
        *author_sentence(attackers, results.params.datasets),
        *detector_sentence(every),
        *best_sentence(points),
    ]
    names = [*results.estimates["mechanism"], *measured["mechanism"]]
    return Section(
        id="anonymity",
        link="Anonymity",
        heading="What an anonymiser without an epsilon gives you",
        words=sentences,
        blocks=[
            *success_tables(measured),
            *(drawings(attackers, points, names, controls) if len(measured) else ()),
            *infer_tables(attackers),
            further_table(further_rows(every, measured["attribute"])),
            settings_table(validated),
            outcome_table(tables_of(results, "outcomes", OUTCOMES)),
            length_table(tables_of(results, "by_length", BY_LENGTH)),
            quality_table(tables_of(results, "quality", QUALITY)),
            *examples(results),
        ],
        first_screen=[("Anonymity", sentence) for sentence in stopped],
    )


def drawings(
    attackers: pl.DataFrame, points: pl.DataFrame, names: Sequence[str], controls: Sequence[str]
) -> list[Figure]:
    """Who infers an attribute, and what hiding it costs."""
    return [
        Figure(
            "anonymity-attackers",
            "Who infers an attribute from what is released",
            attacker_figure(attackers),
            heading="Who infers the attribute",
            caption="Static never saw a rewrite; adaptive, augmented, relabelled and folded learned from rewrites of "
            "other texts, and of several kinds and seeds the one that is right most often is drawn. Dashes: the "
            "classifier on clean texts; dots: guessing.",
        ),
        Figure(
            "anonymity-losses",
            "Loss of attribute, of text, and utility",
            loss_figure(points, names, controls),
            heading="Attribute, text and utility",
            caption="Left: attribute loss beside the loss of the text; right: the macro F1 of a victim that does the "
            "task on released texts. Lines join a mechanism's budgets; rings: nothing keeps more at a smaller loss; "
            "bars: intervals.",
        ),
    ]


def success_tables(measured: pl.DataFrame) -> Iterator[Table]:
    """A table a data set and pair of labels on success over all texts."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | victim: {victim} | "
        "RS_all: {rs_all:.3f} ({rs_all_low:.3f} to {rs_all_high:.3f}) | coverage: {coverage:number} | RS: {rs:number} "
        "| UR: {ur:number} | PA: {pa:number} | UR, all: {ur_released:number} | PA, all: {pa_released:number} | "
        "words changed: {words_changed:.1%} | tags equal: {tags_equal:.0%} | F1 of the task: {task_f1:.2f} | "
        "questions: {asked:,.0f}"
    )
    every = success_rows(measured)
    for dataset, attribute, task in dict.fromkeys((r["dataset"], r["attribute"], r["task"]) for r in every):
        here = [r for r in every if (r["dataset"], r["attribute"], r["task"]) == (dataset, attribute, task)]
        victims = {row["victim"]: row for row in here}
        right = listed([f"{name} {row['both_right']:,}" for name, row in victims.items()])
        clean = listed([f"{row['task_f1_clean']:.2f} ({name})" for name, row in victims.items()])
        caption = (
            f"Over the texts whose {attribute} and {task} the victim reads right: of {here[0]['texts']:,} test texts "
            f"{right}. F1: of {task} on all released texts; on clean ones {clean}."
        )
        asking = " | asked of the victim: {asked_victim:,.0f}" if any(row["asked_victim"] for row in here) else ""
        yield Table(f"{dataset}: {attribute} hidden, {task} kept", caption, records(here, columns + asking))


def infer_tables(attackers: pl.DataFrame) -> Iterator[Table]:
    """A table a data set and attribute on who infers it."""
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
        caption = f"Balanced accuracy of each attacker; guessing has {here[0]['chance']:.2f}."
        yield Table(f"{dataset}: who infers {label}", caption, rows)


def further_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What else attackers can do than read one text, as `further_rows` gives it."""
    sizes = sorted({size for row in rows for size in row["authors"]})
    columns = [f"{size} {inflected(size, 'text', 'texts')}: {{texts_{size}:share}}" for size in sizes]
    models = "detector: {detector:share} | model, unusable: {unusable:share} | model, top 3: {top_3:share}"
    line = " | ".join([NAMED + " | attribute: {label}", *columns, models])
    lines = [record({**row, **{f"texts_{size}": row["authors"].get(size) for size in sizes}}, line) for row in rows]
    caption = (
        "Balanced accuracy of who reads so many texts of one author together, and of who tells rewrites from originals "
        "(guessing: 50 %). Of a language model: answers that name no class, and how often the class is among the first "
        "three that it names."
    )
    heading = "Several texts of one author, language models, and whether rewriting shows"
    return Table(heading, caption, lines, folded=True)


def settings_table(validated: Sequence[Mapping[str, Any]]) -> Table:
    """The settings that were tried on validation texts."""
    columns = (
        NAMED + " | attribute, task: {attribute}, {task} | settings: {settings} | "
        "RS_all: {rs_all:.3f} ({rs_all_low:.3f} to {rs_all_high:.3f}) | words changed: {words_changed:share} | "
        "questions: {asked:,.0f}"
    )
    caption = (
        "Nothing else here is measured on these texts, so that no setting is chosen by texts that it is shown for."
    )
    heading = "Settings, on validation texts"
    return Table(heading, caption, records(validated, columns), folded=True, page_only=True)


def tables_of(results: Results[AnonymityParams], name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Table `name` of every cell under `anonymity` as one (`project.paths.anonymity_path`); of test texts alone."""
    cells = [cell for cell, settings in results.params.anonymity.items() if settings.part == "test"]
    return results.tables([anonymity_path(cell, name) for cell in cells], schema)


def success_rows(measured: pl.DataFrame) -> list[dict[str, Any]]:
    """A row a cell, pair of labels and kind of victim, the most successful first; shares are means over seeds.

    Their intervals are those of the first seed: they are over texts, and seeds share the texts.
    """
    keys = [*CELL, "attribute", "task", "victim"]
    ends = [f"{name}{end}" for name in _SHARES for end in ("_low", "_high")]
    means = ["words_changed", "tags_equal", "task_f1", "task_f1_clean", "asked", "asked_victim"]
    rows = measured.sort("seed").group_by(keys, maintain_order=True).agg(
        pl.col(*_SHARES, *means).mean(), pl.col(*ends, "both_right", "texts").first(), seeds=pl.len()
    )  # fmt: skip
    return rows.sort("dataset", "attribute", "task", "victim", "rs_all", descending=[False] * 4 + [True]).to_dicts()


def validation_rows(results: Results[AnonymityParams]) -> list[dict[str, Any]]:
    """As `success_rows`, of the cells whose settings are tried on validation texts, each with its settings."""
    rows = []
    for name, cell in results.params.anonymity.items():
        if cell.part == "validation":
            settings = ", ".join(f"{setting} {value}" for setting, value in cell.settings.items())
            table = results.table(anonymity_path(name, "anonymity"), ANONYMITY)
            rows += [{**row, "settings": settings} for row in success_rows(table)]
    return rows


def further_rows(attackers: pl.DataFrame, attributes: Iterable[str]) -> list[dict[str, Any]]:
    """A row a cell and attribute: what else attackers can do than read one text; those without any are left out.

    authors: the balanced accuracy by how many texts of one author are read together; detector: that of telling rewrites
    from originals; unusable, top_3: of language models, the share of answers that name no class, and how often the
    class is among the first three named. Of several kinds and seeds the most.
    """
    best = pl.max("balanced_accuracy")
    shows = {
        tuple(cell): accuracy
        for *cell, accuracy in attackers.filter(attacker=DETECTOR).group_by(CELL).agg(best).iter_rows()
    }
    rows = []
    inferring = attackers.filter(pl.col("label").is_in([*attributes])).sort(*_LABEL, "mechanism", "epsilon")
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


def infer_rows(attackers: pl.DataFrame) -> list[dict[str, Any]]:
    """A row a cell and label: the balanced accuracy of each attacker of single texts, and the strongest's loss.

    Of several kinds and seeds of an attacker the one that is right most often is shown, as anybody would choose.
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


def against(attackers: pl.DataFrame, measured: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """A row a cell and attribute: its attribute loss, what it keeps of the task, and the loss of the text.

    kept: the macro F1 of a victim that does the task on all released texts, the least of several tasks; clean: on clean
    ones. text: the loss of the strongest attack on the text (null where it was not audited). front: no other mechanism
    keeps more at a smaller attribute loss, by the plug-in values.
    """
    chosen = attackers.filter(attacker=STRONGEST).select(
        *CELL, "label", "best_attacker", "loss", "upper", "point", "ceiling"
    )
    task_scores = (
        measured.filter(seed=pl.col("seed").min())
        .sort("task_f1")
        .group_by(*CELL, "attribute", maintain_order=True)
        .agg(
            kept=pl.first("task_f1"),
            clean=pl.first("task_f1_clean"),
            low=pl.first("task_f1_low"),
            high=pl.first("task_f1_high"),
        )
        .rename({"attribute": "label"})
    )
    text = losses.select(*CELL, "control", text=pl.col("loss"), text_ceiling=pl.col("ceiling"))
    rows = chosen.join(task_scores, on=[*CELL, "label"], nulls_equal=True).join(
        text, on=CELL, how="left", nulls_equal=True
    )
    rows = rows.with_columns(
        pl.col("control").fill_null(value=False),
        pl.min_horizontal("point", "ceiling"),
        pl.min_horizontal("upper", "ceiling"),
    ).sort(*_LABEL, "mechanism", "epsilon")
    points = rows.to_dicts()
    rivals = [point for point in points if not point["control"]]
    front = [not point["control"] and unbeaten(point, rivals, _LABEL, worth="kept", loss="point") for point in points]
    return rows.with_columns(front=pl.Series(front, dtype=pl.Boolean))


def stopped_sentences(attackers: pl.DataFrame, alpha: float) -> list[str]:
    """For each label whom rewriting stops: who never saw a rewrite, and who learned from rewrites.

    By McNemar's exact test on the same test texts, corrected for the methods (Holm) and, of the retrained attackers,
    if there are any, for the choice of one (`comparison.compare_strongest`). It takes texts as independent.
    """
    sentences = []
    single = attackers.filter(pl.col("texts_each") == 1)
    for (dataset, label), part in single.sort(*_LABEL, "mechanism").group_by(_LABEL, maintain_order=True):
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
        of_clean = f"in {share(clean[0])} of clean texts, guessing in {share(clean[1])}"
        names = listed([cell["mechanism"][0] for cell in stopped])
        stops = (
            f"Of {len(cells)} methods without an epsilon {names} surely "
            f"{inflected(len(stopped), 'stops', 'stop')} a classifier that never saw rewrites"
            if stopped
            else f"None of {len(cells)} methods without an epsilon surely stops a classifier that never saw rewrites"
        )
        learned = f"; {_count(sum(back), len(back))} one that learned from rewrites surely does better" if back else ""
        at = f"McNemar's test at {confidence(alpha, 2)}"
        sentences.append(f"On {dataset} a classifier tells {label} right {of_clean}. {stops}{learned} ({at}).")
    return sentences


def _right(cell: pl.DataFrame, *attackers: str) -> Right:
    """The hits of some attackers of a cell, of every kind and seed."""
    rows = cell.filter(pl.col("attacker").is_in(attackers)).select("attacker", "kind", "seed", "hits").iter_rows()
    return {f"{name} {kind} {seed}": np.array(hits, bool) for name, kind, seed, hits in rows}


def _count(some: int, of: int) -> str:
    return f"under {'it' if of == some == 1 else f'{some} of {of}'}"


def held_sentence(losses: pl.DataFrame, measured: pl.DataFrame) -> list[str]:
    """How many anonymisers leave a text that anybody who holds candidates for it recognises."""
    anonymised = measured.filter(pl.col("epsilon").is_null()).select(CELL).unique()
    cells = losses.filter(~pl.col("control"), pl.col("ceiling") > 0).join(anonymised, on=CELL, nulls_equal=True)
    if cells.is_empty():
        return []
    near = cells.filter(pl.col("loss") >= pl.col("ceiling") - 0.25)
    return [
        f"Whoever holds two texts, of which one was rewritten, tells which: of {len(cells)} methods without an epsilon "
        f"{len(near)} {inflected(len(near), 'stands', 'stand')} at the ceiling of the trials "
        f"({proved(cells['ceiling'].to_list()[0])} nats). Hiding an attribute does not hide the text."
    ]


def author_sentence(attackers: pl.DataFrame, datasets: Mapping[str, Dataset]) -> list[str]:
    """What several texts of one group add; of a data set that names no group, several texts of one class."""
    authors = attackers.filter(attacker=AUTHOR)
    means = (
        authors.group_by("dataset", "label", "texts_each").agg(pl.mean("balanced_accuracy")).sort(*_LABEL, "texts_each")
    )
    shared = {name: " and ".join(dataset.group) or "class" for name, dataset in datasets.items()}
    return [
        f"Who reads several texts of one {shared[dataset]} on {dataset} tells {label} right in "
        + listed([f"{share(row['balanced_accuracy'])} with {row['texts_each']}" for row in part.to_dicts()])
        + ", on average over methods."
        for (dataset, label), part in means.group_by(_LABEL, maintain_order=True)
        if len(part) > 1
    ]


def detector_sentence(attackers: pl.DataFrame) -> list[str]:
    """Whether rewriting shows."""
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
        f"That a text was rewritten shows in {share(least['balanced_accuracy'])} of cases "
        f"({at_budget(least['mechanism'], least['epsilon'])}) to {share(most['balanced_accuracy'])} "
        f"({at_budget(most['mechanism'], most['epsilon'])})."
    ]


def best_sentence(points: pl.DataFrame) -> list[str]:
    """Which method keeps most of the task where its attribute loss is at most half of that of clean texts."""
    sentences = []
    for (dataset, label), part in points.sort(*_LABEL).group_by(_LABEL, maintain_order=True):
        clean: float | None = part.filter(mechanism="identity").select(pl.max("point")).item()
        if clean is None:
            continue
        within = part.filter(~pl.col("control"), pl.col("upper") <= clean / 2).sort("kept", descending=True)
        if within.is_empty():
            sentences.append(
                f"On {dataset} no method brings the strongest attacker of {label} surely below half of the "
                f"{nats(clean)} nats of clean texts."
            )
            continue
        best = within.row(0, named=True)
        near = best["clean"] - best["kept"] <= CLOSE
        sentences.append(
            f"On {dataset} {at_budget(best['mechanism'], best['epsilon'])} keeps most where the strongest attacker of "
            f"{label} is surely below half of the {nats(clean)} nats of clean texts: a macro F1 of the task of "
            f"{best['kept']:.2f} ({best['low']:.2f} to {best['high']:.2f}), {'' if near else 'not '}within "
            f"{CLOSE:g} of the {best['clean']:.2f} of clean texts, at {nats(best['point'])} nats."
        )
    return sentences


def attacker_figure(attackers: pl.DataFrame) -> Specification:
    """The balanced accuracy of each attacker, a panel a data set and label, a line a cell, best hidden first."""
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


def loss_figure(points: pl.DataFrame, mechanisms: Iterable[str], controls: Sequence[str]) -> Specification:
    """For each data set and label two panels: attribute loss against that of the text, and utility against it.

    Budgets of a mechanism are joined by a line; a mechanism without them is a mark. Rings: the Pareto front.
    """
    style = styles(mechanisms)
    names = points["mechanism"].unique().sort().to_list()
    colour, shape = by_name(style, names, controls)
    datasets: dict[str, list[dict[str, Any]]] = {}
    attribute = alt.X("point:Q", title="attribute loss of the strongest attacker (nats)", scale=alt.Scale(zero=True))
    tips = [
        alt.Tooltip("mechanism:N"),
        alt.Tooltip("epsilon:Q", title="nominal ε"),
        alt.Tooltip("best_attacker:N", title="strongest attacker"),
    ]
    size = {"width": (WIDTH - 240) // 2, "height": 300}

    def row(dataset: str, label: str) -> alt.HConcatChart:
        key = f"{dataset} {label}"
        datasets[key] = points.filter(dataset=dataset, label=label).to_dicts()
        base = alt.Chart(alt.NamedData(key))
        interval = base.mark_rule(opacity=0.35).encode(alt.X("loss:Q"), alt.X2("upper"), color=colour)
        panels = []
        for value, title, ends in (
            ("text", "loss of the text, strongest attack (nats)", None),
            ("kept", "macro F1 of the task, released texts", ("low", "high")),
        ):
            y = alt.Y(
                f"{value}:Q",
                title=title,
                scale=alt.Scale(zero=value == "text"),
            )
            valid = base.transform_filter(f"isValid(datum.{value})")
            layers = [
                interval.transform_filter(f"isValid(datum.{value})").encode(y),
                valid.transform_filter("isValid(datum.epsilon)")
                .mark_line(strokeWidth=1.4, opacity=0.7)
                .encode(attribute, y, colour, order="epsilon:Q"),
                valid.mark_point(filled=True, size=56, opacity=1).encode(attribute, y, colour, shape, tooltip=tips),
            ]
            if ends:
                layers.append(
                    valid.mark_rule(opacity=0.35).encode(
                        attribute, alt.Y(f"{ends[0]}:Q", title=title), alt.Y2(ends[1]), color=colour
                    )
                )
                layers.append(
                    valid.transform_filter("datum.front")
                    .mark_point(size=190, color=INK, strokeWidth=1.1)
                    .encode(attribute, y)
                )
            panels.append(alt.layer(*layers).properties(**size, title=alt.TitleParams(f"{dataset}: {label}", offset=8)))
        return alt.hconcat(*panels, spacing=40)

    pairs = points.select(_LABEL).unique(maintain_order=True).rows()
    return specify(alt.vconcat(*(row(*pair) for pair in pairs), spacing=30), datasets)


def length_table(lengths: pl.DataFrame) -> Table:
    """RS_all of each quarter of the texts by length, of the first seed."""
    keys = [*CELL, "attribute", "task", "victim"]
    quarter = pl.format("{} to {}: {}", "shortest", "longest", pl.col("rs_all").round(2))
    first = lengths.filter(pl.col("seed") == pl.col("seed").min()) if len(lengths) else lengths
    rows = first.sort(*keys, "shortest").group_by(keys, maintain_order=True).agg(quarters=quarter.str.join("; "))
    columns = NAMED + " | attribute, task: {attribute}, {task} | victim: {victim} | words: RS_all: {quarters}"
    shown = records(rows, columns)
    caption = "Of each quarter of the texts that the victim reads right, from the shortest."
    return Table("RS_all by length of text", caption, shown, folded=True)


def quality_table(measured: pl.DataFrame) -> Table:
    """How much changed rewrites keep of their texts, a column a metric."""
    shown = []
    for _, part in measured.sort(CELL, maintain_order=True).group_by(CELL, maintain_order=True):
        metrics = {
            row["metric"]: "{mean:.3f} ({mean_low:.3f} to {mean_high:.3f})".format_map(row) for row in part.to_dicts()
        }
        shown.append(record(part.row(0, named=True), NAMED + " | texts: {texts:,}") | metrics)
    caption = (
        "Of the test texts with a changed rewrite: means, and their intervals over texts. The cosine and BERTScore are "
        "by the embedded encoder."
    )
    if any("grammatical" in row for row in shown):
        caption += " Grammatical: how probably acceptable a classifier calls the rewrite, and before it the text."
    return Table("What rewrites keep of their texts", caption, shown, folded=True)


def outcome_table(outcomes: pl.DataFrame) -> Table:
    """How many texts of each cell ended with which status."""
    ends = pl.format("{} {}", "status", "texts").str.join(", ")
    rows = outcomes.sort(CELL).group_by(CELL, maintain_order=True).agg(ends=ends)
    shown = records(rows, NAMED + " | outcomes: {ends}")
    return Table("What became of each text", "Of the test texts.", shown, folded=True)


def examples(results: Results[AnonymityParams]) -> Iterator[Table]:
    """For each cell of a public data set texts at the quartiles of the share of changed words, with what changed."""
    for name, cell in results.params.anonymity.items():
        if cell.dataset not in results.public:
            continue
        originals = dict(enumerate(results.table(f"data/prepared/{cell.dataset}.parquet", {"text": pl.String})["text"]))
        for epsilon in cell.budgets:
            table = results.table(anonymized_path(name, epsilon), ANONYMIZED).filter(split=cell.part)
            pairs = [(originals[row], text) for row, text in table.sort("row").select("row", "text").iter_rows()]
            heading = f"{cell.dataset} · {at_budget(cell.mechanism, stored(epsilon))}: what changed"
            caption = "Struck out: what was taken away; bold: what was put in."
            yield Table(heading, caption, quartile_rows(pairs), folded=True, texts=True)


_MARKS = {"same": Markup("{}"), "gone": Markup('<s class="muted">{}</s>')}


def quartile_rows(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The pairs of text and rewrite below whose share of changed words a quarter, half and three quarters lie."""
    ordered = sorted(pairs, key=lambda pair: (changed_share(*pair), pair))
    rows = []
    for quarter in QUARTERS if ordered else ():
        parts = difference(*ordered[min(int(quarter * len(ordered)), len(ordered) - 1)])
        marked = (_MARKS.get(kind, Markup("<b>{}</b>")).format(part) for kind, part in parts)
        rows.append({"quarter": f"{100 * quarter:g} %", "text": Markup(" ").join(marked)})
    return rows
