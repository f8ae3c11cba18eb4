"""The use of rewrites: how much they keep, compared with one fixed sentence for everybody, and for a learner.

The cosine of text and rewrite is measured on data sets with trials of sets (`POSSIBLE`): the fixed sentence is the
public text with the largest mean cosine with all texts of the sets. Rewrites keep more if the lower end of their mean
cosine's two-sided interval, at the audit's level, exceeds that cosine. Otherwise the fixed sentence is as useful as the
mechanism. Where labels exist and classifiers were trained on rewrites (`DOWNSTREAM`), their macro F1 on
clean texts is shown beside that of classifiers trained on clean texts, both as means over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.core.rounding import DOWN, rounded
from epsilometer.report.cells.possible import certified
from epsilometer.report.cells.results import TextResults
from epsilometer.report.wording import listed

MEASURE = "cosine"
FIXED = f"one fixed sentence (by {MEASURE})"
NOT_MEASURED = "what it keeps was not measured"


@dataclass(frozen=True)
class Score:
    """The macro F1 of classifiers of a label that were trained on rewrites, and of those trained on clean texts."""

    label: str
    rewrites: float
    clean: float | None


@dataclass(frozen=True)
class Kept:
    """The use of a cell's rewrites.

    worth, low: the mean cosine and its lower end; fixed: that of the best fixed sentence. None where not measured.
    labelled: the data set has labels.
    """

    worth: float | None = None
    low: float | None = None
    fixed: float | None = None
    scores: tuple[Score, ...] = ()
    labelled: bool = False

    @property
    def more(self) -> bool | None:
        """True if rewrites keep more than one fixed sentence; None if that was not measured."""
        return None if self.low is None or self.fixed is None else self.low > self.fixed

    @property
    def share(self) -> str:
        """The cosine as a share of the best fixed sentence's: `131 %`; empty where that was not measured."""
        if self.worth is None or self.fixed is None or self.fixed <= 0:
            return ""
        return f"{rounded(100 * self.worth / self.fixed, 0, DOWN):.0f}\N{NO-BREAK SPACE}%"

    @property
    def briefly(self) -> str:
        """`keeps 131 % of what one fixed sentence keeps; a learner keeps F1 0.71 of 0.80 (intent)`."""
        if self.worth is None or self.fixed is None:
            parts = [] if self.scores else [NOT_MEASURED]
        elif self.share:
            parts = [f"keeps {self.share} of what one fixed sentence keeps"]
        else:
            parts = [f"keeps a {MEASURE} of {self.worth:.2f}, one fixed sentence {self.fixed:.2f}"]
        parts += [f"a learner keeps F1 {score.rewrites:.2f}{_of(score.clean)} ({score.label})" for score in self.scores]
        return "; ".join(parts)

    @property
    def sentence(self) -> str:
        """Return the use in whole sentences."""
        if self.worth is None or self.fixed is None:
            said = "What the rewrites keep beside one fixed sentence was not measured."
        else:
            share = f"{self.share} of what the best fixed sentence keeps" if self.share else "a part of the meaning"
            said = f"The rewrites keep {share} ({MEASURE} with the text {self.worth:.2f}, against {self.fixed:.2f})."
        if self.scores:
            scores = [
                f"{score.label} F1 {score.rewrites:.2f}"
                + ("" if score.clean is None else f" (trained on the texts themselves {score.clean:.2f})")
                for score in self.scores
            ]
            return f"{said} A classifier trained on the rewrites keeps of {listed(scores)}."
        return f"{said} No classifier was trained on the rewrites." if self.labelled else said


def _of(clean: float | None) -> str:
    return "" if clean is None else f" of {clean:.2f}"


UNKNOWN = Kept()
Uses = Mapping[tuple[str, str, float | None], Kept]
"""The use of cells' rewrites, by data set, mechanism and epsilon. Cells that were not measured may be missing."""


def uses(results: TextResults) -> Uses:
    """Return what the rewrites of each audited cell keep."""
    columns = ("dataset", "mechanism", "epsilon", "worth", "worth_low", "one_text")
    measured = {
        (dataset, mechanism, epsilon): (worth, low, fixed)
        for dataset, mechanism, epsilon, worth, low, fixed in certified(results)
        .drop_nulls("one_text")
        .select(columns)
        .iter_rows()
    }
    scores = learnt(trained_on_rewrites(results))
    audited = results.estimates.select("dataset", "mechanism", "epsilon").unique(maintain_order=True).iter_rows()
    return {
        cell: Kept(
            *measured.get(cell, (None, None, None)),
            scores=scores.get(cell, ()),
            labelled=bool(results.params.datasets[cell[0]].labels) if cell[0] in results.params.datasets else False,
        )
        for cell in dict.fromkeys([*measured, *scores, *audited])
    }


def trained_on_rewrites(results: TextResults) -> pl.DataFrame:
    """Return scores of classifiers after training on rewrites, schema `DOWNSTREAM`; without such cells no rows."""
    names = ("clean", *getattr(results.params, "downstream", ()))  # of another study
    return results.tables(filter(results.has, (f"data/downstream/{name}.parquet" for name in names)), DOWNSTREAM)


def learnt(downstream: pl.DataFrame) -> dict[tuple[str, str, float | None], tuple[Score, ...]]:
    """Return the scores of each cell by label, from the kind of classifier that does best on clean texts."""
    tasks = downstream.filter(role="task")
    means = tasks.group_by("dataset", "mechanism", "epsilon", "label", "setting", "kind", maintain_order=True).agg(
        pl.mean("macro_f1")
    )
    clean = means.filter(setting="clean").sort("macro_f1", descending=True, maintain_order=True)
    best = clean.unique(["dataset", "label"], keep="first", maintain_order=True)
    by_label = {(row["dataset"], row["label"]): row for row in best.to_dicts()}
    scores: dict[tuple[str, str, float | None], dict[str, Score]] = {}
    for row in means.filter(setting="private").drop_nulls("macro_f1").to_dicts():
        reference = by_label.get((row["dataset"], row["label"]))
        if reference is None or reference["kind"] == row["kind"]:
            of_cell = scores.setdefault((row["dataset"], row["mechanism"], row["epsilon"]), {})
            score = Score(row["label"], row["macro_f1"], None if reference is None else reference["macro_f1"])
            of_cell.setdefault(row["label"], score)
    return {cell: tuple(of_cell.values()) for cell, of_cell in scores.items()}
