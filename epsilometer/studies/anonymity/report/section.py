"""The section of the report on anonymity: how well anonymisers hide an attribute, and at what cost in utility.

Losses are in nats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl
from markupsafe import Markup

from epsilometer.auditing.attributes.tables import ANONYMITY, ATTACKERS
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.guarantees import stored
from epsilometer.report.figures import (
    INK,
    WIDTH,
    Figure,
    Specification,
    by_name,
    specify,
    styles,
)
from epsilometer.report.results import Results
from epsilometer.report.rows import CELL, strongest, unbeaten
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, record, records
from epsilometer.report.wording import (
    at_budget,
    inflected,
    listed,
    nats,
    proved,
)
from epsilometer.studies.anonymity.anonymizing import changed_share, difference
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.report.attackers import (
    LABEL,
    attacker_figure,
    author_sentence,
    detector_sentence,
    further_rows,
    further_table,
    infer_tables,
    stopped_sentences,
)
from epsilometer.studies.anonymity.tables import (
    ANONYMIZED,
    BY_LENGTH,
    OUTCOMES,
    QUALITY,
    anonymity_path,
    anonymized_path,
)

CLOSE = 0.03  # largest drop in macro F1 from clean texts at which the utility for a task counts as retained
QUARTERS = (0.25, 0.5, 0.75)
_SHARES = ("rs_all", "rs", "ur", "pa", "coverage", "ur_released", "pa_released")


def section(results: Results[AnonymityParams]) -> Section | None:
    """Return the section: success over all texts, attackers who know the method, losses of attributes and texts.

    Returns None if no cell under `anonymity` has run.
    """
    measured, validated = tables_of(results, "anonymity", ANONYMITY), validation_rows(results)
    if measured.is_empty() and not validated:
        return None
    every = tables_of(results, "attackers", ATTACKERS)
    attackers = every.filter(pl.col("label").is_in({*measured["attribute"]}))  # leaves out detectors of rewrites
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
    """Return the figures: inference of an attribute by each attacker, and the cost of hiding it."""
    return [
        Figure(
            "anonymity-attackers",
            "Who infers an attribute from what is released",
            attacker_figure(attackers),
            heading="Who infers the attribute",
            caption="The static attacker never saw a rewrite; adaptive, augmented, relabelled and folded attackers "
            "learned from rewrites of other texts. A point is the best of an attacker's kinds and seeds. Dashed line: "
            "the classifier on clean texts. Dotted line: random guessing.",
        ),
        Figure(
            "anonymity-losses",
            "Loss of attribute, of text, and utility",
            loss_figure(points, names, controls),
            heading="Attribute, text and utility",
            caption="Left: attribute loss and loss of the text. Right: attribute loss and macro F1 of a victim that "
            "does the task on released texts. Lines join a mechanism's budgets. Rings: no other mechanism has a "
            "larger F1 at a smaller attribute loss. Bars: intervals.",
        ),
    ]


def success_tables(measured: pl.DataFrame) -> Iterator[Table]:
    """Yield a table of success over all texts per data set and pair of labels."""
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
            f"Shares are over the texts whose {attribute} and {task} the victim infers correctly: of "
            f"{here[0]['texts']:,} test texts, {right}. RS_all: the rewrite hides the attribute and keeps the task. "
            "Coverage: the rewrite differs from the text. RS, UR and PA count such texts alone. RS: as RS_all. UR: the "
            f"task is still inferred. PA: the attribute is still inferred. F1 is that of {task} on all released "
            f"texts; on clean texts it is {clean}."
        )
        asking = " | asked of the victim: {asked_victim:,.0f}" if any(row["asked_victim"] for row in here) else ""
        yield Table(f"{dataset}: {attribute} hidden, {task} kept", caption, records(here, columns + asking))


def settings_table(validated: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the settings that were tried on validation texts."""
    columns = (
        NAMED + " | attribute, task: {attribute}, {task} | settings: {settings} | "
        "RS_all: {rs_all:.3f} ({rs_all_low:.3f} to {rs_all_high:.3f}) | words changed: {words_changed:share} | "
        "questions: {asked:,.0f}"
    )
    caption = "The other tables use test texts, so no setting is chosen on the texts that its results are measured on."
    heading = "Settings, on validation texts"
    return Table(heading, caption, records(validated, columns), folded=True, page_only=True)


def tables_of(results: Results[AnonymityParams], name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the tables `name` of all cells under `anonymity` that rewrite test texts, joined into one."""
    cells = [cell for cell, settings in results.params.anonymity.items() if settings.part == "test"]
    return results.tables([anonymity_path(cell, name) for cell in cells], schema)


def success_rows(measured: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row per cell, pair of labels and kind of victim, with the largest RS_all first.

    Shares are means over seeds. Intervals are those of the first seed: they account for the choice of texts, which all
    seeds share.
    """
    keys = [*CELL, "attribute", "task", "victim"]
    ends = [f"{name}{end}" for name in _SHARES for end in ("_low", "_high")]
    means = ["words_changed", "tags_equal", "task_f1", "task_f1_clean", "asked", "asked_victim"]
    rows = measured.sort("seed").group_by(keys, maintain_order=True).agg(
        pl.col(*_SHARES, *means).mean(), pl.col(*ends, "both_right", "texts").first(), seeds=pl.len()
    )  # fmt: skip
    return rows.sort("dataset", "attribute", "task", "victim", "rs_all", descending=[False] * 4 + [True]).to_dicts()


def validation_rows(results: Results[AnonymityParams]) -> list[dict[str, Any]]:
    """Return rows like `success_rows` for the cells that rewrite validation texts, with their settings."""
    rows = []
    for name, cell in results.params.anonymity.items():
        if cell.part == "validation":
            settings = ", ".join(f"{setting} {value}" for setting, value in cell.settings.items())
            table = results.table(anonymity_path(name, "anonymity"), ANONYMITY)
            rows += [{**row, "settings": settings} for row in success_rows(table)]
    return rows


def against(attackers: pl.DataFrame, measured: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return a row per cell and attribute: its attribute loss, its utility for the task, and the loss of the text.

    The columns have these meanings:

    - kept: the macro F1 of a task by a victim, on all released texts; the smallest over tasks and kinds of victim;
    - clean: the macro F1 of this task by this victim, on clean texts;
    - text: the loss of the strongest attack on the text; null if the text was not audited;
    - front: True if no other mechanism has a larger `kept` at a smaller attribute loss, by point estimates.
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
    ).sort(*LABEL, "mechanism", "epsilon")
    points = rows.to_dicts()
    rivals = [point for point in points if not point["control"]]
    front = [not point["control"] and unbeaten(point, rivals, LABEL, worth="kept", loss="point") for point in points]
    return rows.with_columns(front=pl.Series(front, dtype=pl.Boolean))


def held_sentence(losses: pl.DataFrame, measured: pl.DataFrame) -> list[str]:
    """Return a sentence that counts the anonymisers without an epsilon whose loss of the text is near the ceiling.

    A loss is near the ceiling if it is at most .25 nats below.
    """
    anonymised = measured.filter(pl.col("epsilon").is_null()).select(CELL).unique()
    cells = losses.filter(~pl.col("control"), pl.col("ceiling") > 0).join(anonymised, on=CELL, nulls_equal=True)
    if cells.is_empty():
        return []
    near = cells.filter(pl.col("loss") >= pl.col("ceiling") - 0.25)
    return [
        f"An adversary with two candidate texts sees which one was rewritten: {len(near)} of {len(cells)} methods "
        f"without an epsilon {inflected(len(near), 'reaches', 'reach')} the ceiling of the trials "
        f"({proved(cells['ceiling'].to_list()[0])} nats). Hiding an attribute does not hide the text."
    ]


def best_sentence(points: pl.DataFrame) -> list[str]:
    """Return a sentence per attribute on the best method that at least halves the attribute loss of clean texts.

    The best method is the one with the largest macro F1 of the task.
    """
    sentences = []
    for (dataset, label), part in points.sort(*LABEL).group_by(LABEL, maintain_order=True):
        clean: float | None = part.filter(mechanism="identity").select(pl.max("loss")).item()  # the lower bound
        if not clean:
            continue
        within = part.filter(~pl.col("control"), pl.col("upper") <= clean / 2).sort("kept", descending=True)
        if within.is_empty():
            sentences.append(
                f"On {dataset} no method is shown to halve the loss of {label} to the strongest attacker; clean texts "
                f"lose at least {nats(clean)} nats."
            )
            continue
        best = within.row(0, named=True)
        near = best["clean"] - best["kept"] <= CLOSE
        sentences.append(
            f"On {dataset} {at_budget(best['mechanism'], best['epsilon'])} retains the most utility of the methods "
            f"shown to halve the loss of {label} to the strongest attacker (clean texts: at least {nats(clean)} nats). "
            f"Its loss is {nats(best['point'])} nats; the macro F1 of the task is {best['kept']:.2f} "
            f"({best['low']:.2f} to {best['high']:.2f}), {'' if near else 'not '}within {CLOSE:g} of the "
            f"{best['clean']:.2f} of clean texts."
        )
    return sentences


def loss_figure(points: pl.DataFrame, mechanisms: Iterable[str], controls: Sequence[str]) -> Specification:
    """Return two panels per data set and label: the loss of the text, and utility, each against attribute loss.

    A line joins the budgets of a mechanism; a mechanism without budgets is a point. Rings mark the Pareto front.
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

    pairs = points.select(LABEL).unique(maintain_order=True).rows()
    return specify(alt.vconcat(*(row(*pair) for pair in pairs), spacing=30), datasets)


def length_table(lengths: pl.DataFrame) -> Table:
    """Return the table of RS_all for each quarter of the texts by length, for the first seed."""
    keys = [*CELL, "attribute", "task", "victim"]
    quarter = pl.format("{} to {}: {}", "shortest", "longest", pl.col("rs_all").round(2))
    first = lengths.filter(pl.col("seed") == pl.col("seed").min()) if len(lengths) else lengths
    rows = first.sort(*keys, "shortest").group_by(keys, maintain_order=True).agg(quarters=quarter.str.join("; "))
    columns = NAMED + " | attribute, task: {attribute}, {task} | victim: {victim} | words: RS_all: {quarters}"
    shown = records(rows, columns)
    caption = (
        "RS_all for each quarter of the texts that the victim classifies correctly, from the shortest to the longest."
    )
    return Table("RS_all by length of text", caption, shown, folded=True)


def quality_table(measured: pl.DataFrame) -> Table:
    """Return the table of the quality of changed rewrites relative to their texts, a column per metric."""
    shown = []
    for _, part in measured.sort(CELL, maintain_order=True).group_by(CELL, maintain_order=True):
        metrics = {
            row["metric"]: "{mean:.3f} ({mean_low:.3f} to {mean_high:.3f})".format_map(row) for row in part.to_dicts()
        }
        shown.append(record(part.row(0, named=True), NAMED + " | texts: {texts:,}") | metrics)
    caption = (
        "Means over the test texts with a changed rewrite, with intervals that account for the choice of texts. The "
        "cosine and BERTScore use the embedded encoder."
    )
    if any("grammatical" in row for row in shown):
        caption += " Grammatical: the probability of acceptable grammar by a classifier, for rewrites and for texts."
    return Table("What rewrites keep of their texts", caption, shown, folded=True)


def outcome_table(outcomes: pl.DataFrame) -> Table:
    """Return the table of the number of texts of each cell by status."""
    ends = pl.format("{} {}", "status", "texts").str.join(", ")
    rows = outcomes.sort(CELL).group_by(CELL, maintain_order=True).agg(ends=ends)
    shown = records(rows, NAMED + " | outcomes: {ends}")
    return Table("What became of each text", "The number of test texts with each status.", shown, folded=True)


def examples(results: Results[AnonymityParams]) -> Iterator[Table]:
    """Yield, for each cell of a public data set, a table of texts with their changes marked.

    The texts are those at the quartiles of the share of changed words.
    """
    for name, cell in results.params.anonymity.items():
        if cell.dataset not in results.public:
            continue
        originals = dict(enumerate(results.table(f"data/prepared/{cell.dataset}.parquet", {"text": pl.String})["text"]))
        for epsilon in cell.budgets:
            table = results.table(anonymized_path(name, epsilon), ANONYMIZED).filter(split=cell.part)
            pairs = [(originals[row], text) for row, text in table.sort("row").select("row", "text").iter_rows()]
            heading = f"{cell.dataset} · {at_budget(cell.mechanism, stored(epsilon))}: what changed"
            caption = "Struck out: removed words; bold: new ones."
            yield Table(heading, caption, quartile_rows(pairs), folded=True, texts=True)


_MARKS = {"same": Markup("{}"), "gone": Markup('<s class="muted">{}</s>')}


def quartile_rows(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the pairs of text and rewrite at the quartiles of the share of changed words."""
    ordered = sorted(pairs, key=lambda pair: (changed_share(*pair), pair))
    rows = []
    for quarter in QUARTERS if ordered else ():
        parts = difference(*ordered[min(int(quarter * len(ordered)), len(ordered) - 1)])
        marked = (_MARKS.get(kind, Markup("<b>{}</b>")).format(part) for kind, part in parts)
        rows.append({"quarter": f"{100 * quarter:g} %", "text": Markup(" ").join(marked)})
    return rows
