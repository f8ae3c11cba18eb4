"""The report on classifiers and regressions that learn from rewrites."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.report.table import NONE
from epsilometer.studies.anonymity.report.learnt import attackers, beside_each_other, of_datasets
from tests.support.audited import downstream


def rows(*cells: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(cells), schema=dict(DOWNSTREAM))


def run(dataset: str, setting: str, accuracy: float | None, **more: Any) -> dict[str, Any]:
    """A row of a linear classifier of a task."""
    named = {"dataset": dataset, "label": "label", "role": "task", "setting": setting, "kind": "linear", "seed": 0}
    return {**named, "accuracy": accuracy, "macro_f1": accuracy, "matthews": 0.1, "guessed": 2, **more}


def test_attackers_stand_between_their_ends() -> None:
    (table,) = of_datasets(downstream())
    majority, ends, *rest = table.rows
    assert (majority["mechanism"], majority["gender, majority"]) == ("majority", "0.33")
    assert ends["gender, clean"] == "0.70 ± 0.02"
    row = next(row for row in rest if row["mechanism"] == "mvc")
    assert (row["gender, static"], row["gender, adaptive"]) == ("0.50 ± 0.02", "0.60 ± 0.02")


def test_tasks_and_numbers_stand_beside_each_other_with_the_mean_drop() -> None:
    cell = {"mechanism": "mvc", "epsilon": 5.0}
    number = {"role": "number", "macro_f1": None, "matthews": None}
    table = rows(
        run("cola", "clean", 0.8),
        run("cola", "majority", 0.85, kind=None),
        run("cola", "private", 0.7, **cell),
        run("cola", "rewritten", 0.6, **cell),
        run("stsb", "clean", None, **{**number, "pearson": 0.9, "spearman": 0.8}),
        run("stsb", "private", None, **{**number, "pearson": 0.5, "spearman": 0.4}, **cell),
        run("stsb", "rewritten", None, **{**number, "pearson": 0.0, "spearman": 0.0, "guessed": 1}, **cell),
        run("mrpc", "clean", 0.6),  # the cell of this data set has not run
    )
    (beside,) = beside_each_other(table)
    clean, private, rewritten = beside.rows
    assert (clean["cola"], clean["stsb"], clean["mrpc"]) == ("80.00", "85.00", "60.00")
    assert (private["tested on"], private["cola"], private["stsb"]) == ("clean texts", "70.00", "45.00")
    assert (private["mean drop"], private["tasks"]) == ("25.00", 2)  # the mean of 10 and 40
    assert private["mean drop, taught"] == "40.00"  # on cola, guessing the most frequent class is better
    assert (rewritten["cola"], rewritten["stsb"], rewritten["mean drop"]) == ("60.00", "0.00", "52.50")
    assert "1 of 7 classifiers or regressions give the same answer for all texts" in beside.caption
    assert "is not defined and counts as 0" in beside.caption
    defined = table.filter(pl.col("guessed") > 1)
    assert "not defined" not in next(beside_each_other(defined)).caption
    of_stsb = next(of for of in of_datasets(table) if of.heading.endswith("stsb"))
    assert of_stsb.rows[1]["label, private, Pearson"] == "0.50"
    assert of_stsb.rows[1]["label, rewritten, Spearman"] == "0.00"


def test_attackers_stand_beside_each_other() -> None:
    (table,) = attackers(downstream())
    guess, clean, first, *_ = table.rows
    assert (guess["mechanism"], guess["classifier"], guess["queries, gender, majority"]) == (
        "clean texts",
        NONE,
        "33.00",
    )
    assert (clean["classifier"], clean["queries, gender, clean"]) == ("transformer", "70.00")
    assert (first["mechanism"], first["epsilon"]) == ("mvc", "0.5")
    assert (first["queries, gender, static"], first["queries, gender, adaptive"]) == ("50.00", "60.00")
    assert not any("intent" in column for column in table.columns)
    assert not [*attackers(downstream().filter(role="task"))]
