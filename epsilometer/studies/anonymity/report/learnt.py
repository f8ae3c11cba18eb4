"""The report on learning from rewritten texts: one table of all tasks, then one per data set."""

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
_TESTED = {"private": "clean texts", "rewritten": "rewritten texts"}  # by setting
_SCORE = pl.coalesce("accuracy", (pl.col("pearson") + pl.col("spearman")) / 2)


def section(results: Results[AnonymityParams]) -> Section | None:
    """Tables only; absent where nothing is trained on rewrites."""
    names = ("clean", *results.params.downstream) if results.params.downstream else ()
    paths = filter(results.has, (f"data/downstream/{name}.parquet" for name in names))
    trained = results.tables(paths, DOWNSTREAM)
    if trained.is_empty():
        return None
    blocks = [*beside_each_other(trained), *attackers(trained), *of_datasets(trained), *one_text(results)]
    return Section("learnt", "Learnt", "What classifiers learn from rewrites", blocks=blocks, folded=True)


def beside_each_other(trained: pl.DataFrame) -> Iterator[Table]:
    """Accuracy of every task, the mean of both correlations of every number, and the mean drop, in percent."""
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
        "Percent, mean over seeds: accuracy, and for numbers the mean of Pearson's and Spearman's correlation. Learnt "
        "from rewritten texts, tested on clean or on rewritten ones; in the first rows both are clean. The drop is "
        "from the first rows, over the tasks that have run; taught: over the tasks on which clean texts beat the most "
        f"frequent class.{_undefined(tasks)}"
    )
    yield Table("All tasks beside each other", caption, rows)


def attackers(trained: pl.DataFrame) -> Iterator[Table]:
    """Yield the accuracy of attackers of an attribute, in percent: on clean texts first, then on each cell."""
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
        "Percent of right answers, mean over seeds. An attacker learns from clean texts and reads rewritten ones "
        "(`static`, as 1-Diffractor's table 4), learns from rewritten ones too (`adaptive`), or learns from these and "
        "reads clean ones (`private`, as TeDA); `majority` names the most frequent class, `clean` is clean throughout."
    )
    yield Table("All attackers beside each other", caption, rows)


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
    """The number of classifiers that guess only one class, or regressions one number: no coefficient is defined."""
    learnt = tasks.filter(pl.col("setting") != "majority")
    constant = learnt.filter(pl.col("guessed") < 2)
    if constant.is_empty():
        return ""
    return (
        f" {len(constant)} of {len(learnt)} classifiers guess one class alone (or regressions one number): Matthews' "
        "coefficient, or the correlation, is not defined there and counts as 0."
    )


def one_text(results: Results[AnonymityParams]) -> Iterator[Table]:
    """Yield the first text of the first public data set as every cell rewrites it; of a pair, the first side."""
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
            "Macro F1, and Matthews' correlation coefficient (MCC); of a number Pearson's and Spearman's correlation: "
            f"mean and standard deviation over seeds.{_undefined(table)}"
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
    """Mean and standard deviation, `0.71 ± 0.02`; for one value the mean only, for no values None."""
    scores = values.to_numpy()
    if not len(scores):
        return None
    return f"{scores.mean():.2f}" + (f" ± {scores.std(ddof=1):.2f}" if len(scores) > 1 else "")
