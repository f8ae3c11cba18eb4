"""The section of the report on learning from rewritten texts: tables of all tasks, then one per data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.corpora.reading import PREPARED
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table
from epsilometer.report.wording import budget
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.tables import PRIVATIZED, privatized_path

CELL = ["mechanism", "epsilon", "kind"]
_TASK = ["dataset", "label"]
_TESTED = {"private": "clean texts", "rewritten": "rewritten texts"}  # the test texts of each setting
_SCORE = pl.coalesce("accuracy", (pl.col("pearson") + pl.col("spearman")) / 2)


def section(results: Results[AnonymityParams]) -> Section | None:
    """Return the section, which consists of tables; None if no classifier is trained on rewrites."""
    names = ("clean", *results.params.downstream) if results.params.downstream else ()
    paths = filter(results.has, (f"data/downstream/{name}.parquet" for name in names))
    trained = results.tables(paths, DOWNSTREAM)
    if trained.is_empty():
        return None
    blocks = [*beside_each_other(trained), *attackers(trained), *of_datasets(trained), *one_text(results)]
    return Section("learnt", "Learnt", "What classifiers learn from rewrites", blocks=blocks, folded=True)


def beside_each_other(trained: pl.DataFrame) -> Iterator[Table]:
    """Yield the table of all tasks, in percent: their scores, and the mean drop from clean texts.

    The score of a task is its accuracy. The score of a number is the mean of Pearson's and Spearman's correlation.
    """
    tasks = trained.filter(pl.col("role") != "attribute").with_columns(score=100 * _SCORE)
    clean = tasks.filter(setting="clean").group_by(*_TASK, "kind", maintain_order=True).agg(clean=pl.mean("score"))
    if clean.is_empty():
        return
    rows = [
        _beside(clean.rename({"clean": "score"}).filter(kind=kind), kind=kind) for kind in clean["kind"].unique().sort()
    ]
    guessed = tasks.filter(setting="majority").group_by(_TASK).agg(commonest=pl.first("score"))
    taught = clean.join(guessed, _TASK, how="left", maintain_order="left").select(
        *_TASK, "kind", "clean", taught=pl.col("clean") > pl.col("commonest").fill_null(0)
    )
    private = tasks.filter(pl.col("setting").is_in(list(_TESTED))).join(taught, [*_TASK, "kind"], maintain_order="left")
    for (mechanism, epsilon, kind, setting), of in private.group_by(*CELL, "setting", maintain_order=True):
        means = of.group_by(_TASK, maintain_order=True).agg(pl.mean("score"), pl.first("clean", "taught"))
        named = {"mechanism": mechanism, "epsilon": budget(epsilon), "tested": _TESTED[setting]}
        drops = {"mean drop": _drop(means), "mean drop, taught": _drop(means.filter("taught")), "tasks": len(means)}
        rows.append(_beside(means, **named, kind=kind) | drops)
    caption = (
        "Percent, mean over seeds: accuracy, and for numbers the mean of Pearson's and Spearman's correlation. "
        "Classifiers are trained on rewritten texts and tested on clean or rewritten texts; in the first rows, all "
        "texts are clean. Mean drop: the first rows' figure minus this row's, over the tasks that have run. Mean "
        "drop, taught: only over the tasks on which a classifier of clean texts is better than the most frequent "
        f"class.{_undefined(tasks)}"
    )
    yield Table("All tasks compared", caption, rows)


def attackers(trained: pl.DataFrame) -> Iterator[Table]:
    """Yield the table of attackers' accuracies, in percent: on clean texts first, then on each cell."""
    attributes = trained.filter(role="attribute").with_columns(pl.col("mechanism").fill_null("clean texts"))
    if attributes.is_empty():
        return
    rows = []
    for (mechanism, epsilon, kind), of in attributes.group_by(CELL, maintain_order=True):
        means = of.group_by(*_TASK, "setting", maintain_order=True).agg(100 * pl.mean("accuracy"))
        at = NONE if epsilon is None else budget(epsilon)
        named = {"mechanism": mechanism, "epsilon": at, "classifier": kind or NONE}
        rows.append(named | {f"{d}, {label}, {setting}": f"{s:.2f}" for d, label, setting, s in means.iter_rows()})
    caption = (
        "Percent of right answers, mean over seeds. `static`: trained on clean texts, tested on rewritten texts (as in "
        "1-Diffractor, table 4). `adaptive`: trained and tested on rewritten texts. `private`: trained on rewritten "
        "texts, tested on clean texts (as in TeDA). `majority`: always the most frequent class. `clean`: trained and "
        "tested on clean texts."
    )
    yield Table("All attackers compared", caption, rows)


def _beside(
    scores: pl.DataFrame, mechanism: str = "clean texts", epsilon: str = NONE, *, kind: str, tested: str = NONE
) -> dict[str, Any]:
    several = scores["dataset"].is_duplicated()
    names = [
        f"{d}, {label}" if many else d
        for d, label, many in zip(scores["dataset"], scores["label"], several, strict=True)
    ]
    of_task = {name: f"{score:.2f}" for name, score in zip(names, scores["score"], strict=True)}
    return {"mechanism": mechanism, "epsilon": epsilon, "classifier": kind, "tested on": tested, **of_task}


def _drop(means: pl.DataFrame) -> str:
    return f"{np.mean((means['clean'] - means['score']).to_numpy()):.2f}" if len(means) else NONE


def _undefined(tasks: pl.DataFrame) -> str:
    """Return a sentence with the number of classifiers whose guesses are all equal; empty if there are none."""
    learnt = tasks.filter(pl.col("setting") != "majority")
    constant = learnt.filter(pl.col("guessed") < 2)
    if constant.is_empty():
        return ""
    return (
        f" {len(constant)} of {len(learnt)} classifiers or regressions give the same answer for all texts: their "
        "Matthews coefficient, or correlation, is not defined and counts as 0."
    )


def one_text(results: Results[AnonymityParams]) -> Iterator[Table]:
    """Yield a table of how each cell rewrites one text: the first text of the first public data set.

    If the data set consists of pairs, it is the first side of the first pair.
    """
    cells, datasets = results.params.downstream, results.params.datasets
    dataset = next((cell.dataset for cell in cells.values() if datasets[cell.dataset].public), None)
    budgets = ((name, cell, epsilon) for name, cell in cells.items() for epsilon in cell.budgets)
    rows: list[dict[str, str]] = []
    for name, cell, epsilon in budgets:
        path = privatized_path(name, epsilon)
        if cell.dataset != dataset or not results.has(path):
            continue
        first = results.table(path, PRIVATIZED).filter(seed=0, side=0).sort("row").row(0, named=True)
        if not rows:
            column = (*datasets[dataset].sides, "text")[0]
            own = results.table(f"data/prepared/{dataset}.parquet", PREPARED)[column][first["row"]]
            rows.append({"mechanism": "original", "epsilon": NONE, "text": own})
        rows.append({"mechanism": cell.mechanism, "epsilon": budget(epsilon), "text": first["text"] or "(empty)"})
    if rows:
        yield Table(f"One text of {dataset}, rewritten", "With the noise of the first seed.", rows, texts=True)


def of_datasets(trained: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: macro F1 and Matthews' coefficient of classifiers, correlations of regressions."""
    for (dataset,), table in trained.group_by("dataset", maintain_order=True):
        rows = []
        for (mechanism, epsilon, kind), cell in table.group_by(CELL, maintain_order=True):
            scores: dict[str, str] = {}
            for (label, setting), seeds in cell.group_by("label", "setting", maintain_order=True):
                scores |= _scores(f"{label}, {setting}", seeds)
            base = "baselines" if kind else "majority"
            named = {"mechanism": mechanism or base, "epsilon": budget(epsilon), "classifier": kind or NONE}
            rows.append(named | scores)
        caption = (
            "Mean and standard deviation over seeds. For classes: macro F1 and Matthews' correlation coefficient "
            f"(MCC). For numbers: Pearson's and Spearman's correlation.{_undefined(table)}"
        )
        yield Table(f"What classifiers learn on {dataset}", caption, rows)


def _scores(name: str, seeds: pl.DataFrame) -> Mapping[str, str]:
    measures = {
        "macro_f1": name,
        "matthews": f"{name}, MCC",
        "pearson": f"{name}, Pearson",
        "spearman": f"{name}, Spearman",
    }
    return {heading: said for measure, heading in measures.items() if (said := spread(seeds[measure].drop_nulls()))}


def spread(values: pl.Series) -> str | None:
    """Return mean and standard deviation, such as `0.71 ± 0.02`; the mean alone for one value; None for no values."""
    scores = values.to_numpy()
    if not len(scores):
        return None
    return f"{scores.mean():.2f}" + (f" ± {scores.std(ddof=1):.2f}" if len(scores) > 1 else "")
