"""The tables of the study of anonymity in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.report.markdown import Section, as_number, as_table, loss_between
from epsilometer.report.results import Results
from epsilometer.report.wording import budget, listed
from epsilometer.studies.anonymity.attackers import CLEAN
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.report import section as anonymity
from epsilometer.studies.anonymity.tables import ANONYMITY, ATTACKERS


def sections(results: Results[AnonymityParams]) -> Iterator[Section]:
    """What attackers infer from rewrites."""
    yield from anonymised(
        anonymity.tables_of(results, "anonymity", ANONYMITY), anonymity.tables_of(results, "attackers", ATTACKERS)
    )


def anonymised(measured: pl.DataFrame, attackers: pl.DataFrame) -> Iterator[Section]:
    """A section a data set and attribute on success over all texts, and one on who infers the attribute."""
    rows = anonymity.success_rows(measured)
    for dataset, attribute, task in dict.fromkeys((r["dataset"], r["attribute"], r["task"]) for r in rows):
        here = [r for r in rows if (r["dataset"], r["attribute"], r["task"]) == (dataset, attribute, task)]
        table = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                "victim": row["victim"],
                "RS_all": f"{row['rs_all']:.3f} ({row['rs_all_low']:.3f} to {row['rs_all_high']:.3f})",
                "coverage": as_number(row["coverage"]),
                "RS": as_number(row["rs"]),
                "UR": as_number(row["ur"]),
                "PA": as_number(row["pa"]),
                "UR, all": as_number(row["ur_released"]),
                "PA, all": as_number(row["pa_released"]),
                "words changed": f"{row['words_changed']:.1%}",
                "tags equal": "" if row["tags_equal"] is None else f"{row['tags_equal']:.0%}",
                "F1 of the task": f"{row['task_f1']:.2f}",
                "questions": "" if row["asked"] is None else f"{row['asked']:,.0f}",
            }
            for row in here
        ]
        victims = {row["victim"]: row for row in here}
        right = listed([f"{name} {row['both_right']:,}" for name, row in victims.items()])
        clean = listed([f"{row['task_f1_clean']:.2f} ({name})" for name, row in victims.items()])
        note = (
            f"Over the texts whose {attribute} and {task} the victim reads right: of {here[0]['texts']:,} test texts "
            f"{right}. F1: of {task} on all released texts; on clean ones {clean}."
        )
        yield f"{dataset}: {attribute} hidden, {task} kept", note, as_table(table)
    inferred = anonymity.infer_rows(attackers.filter(pl.col("label").is_in({*measured["attribute"]})))
    for dataset, label in dict.fromkeys((row["dataset"], row["label"]) for row in inferred):
        here = [row for row in inferred if (row["dataset"], row["label"]) == (dataset, label)]
        names = [name for name in (CLEAN, *anonymity.SHOWN) if any(name in row["accuracies"] for row in here)]
        table = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                **{name: as_number(row["accuracies"].get(name)) for name in names},
                "attribute loss": loss_between(row),
                "strongest": row["best_attacker"],
                "verdict": row["verdict"],
            }
            for row in here
        ]
        note = f"Balanced accuracy of each attacker; guessing has {here[0]['chance']:.2f}."
        yield f"{dataset}: who infers {label}", note, as_table(table)
