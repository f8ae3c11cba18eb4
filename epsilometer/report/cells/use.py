"""The utility of rewrites: their similarity to texts, compared with one fixed sentence, and as training data.

For data sets with trials on random sets of texts, the mean cosine of text and rewrite is measured, by one trial per set
(schema `POSSIBLE`). The fixed sentence is the public text with the largest mean cosine to all texts of the sets.
Rewrites are more useful than this sentence if the lower bound of their mean cosine (of a two-sided interval at the
audit's alpha) exceeds the sentence's mean cosine. Any classifiers trained on rewrites (`DOWNSTREAM`) are compared
with classifiers trained on clean texts, by macro F1 on clean texts. Every F1 is a mean over seeds.
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
NOT_MEASURED = "utility was not measured"


@dataclass(frozen=True)
class Score:
    """The macro F1 of classifiers of a label, trained on rewrites and on clean texts."""

    label: str
    rewrites: float
    clean: float | None


@dataclass(frozen=True)
class Kept:
    """The utility of a cell's rewrites.

    worth, low: the mean cosine and its lower bound; fixed: the mean cosine of the best fixed sentence; None if not
    measured. labelled: True if the data set has labels.
    """

    worth: float | None = None
    low: float | None = None
    fixed: float | None = None
    scores: tuple[Score, ...] = ()
    labelled: bool = False

    @property
    def more(self) -> bool | None:
        """True if rewrites are more useful than one fixed sentence; None if that was not measured."""
        return None if self.low is None or self.fixed is None else self.low > self.fixed

    @property
    def share(self) -> str:
        """The cosine as a share of the fixed sentence's: `131 %`; empty if unmeasured, or if the sentence's is <= 0."""
        if self.worth is None or self.fixed is None or self.fixed <= 0:
            return ""
        return f"{rounded(100 * self.worth / self.fixed, 0, DOWN):.0f}\N{NO-BREAK SPACE}%"

    @property
    def briefly(self) -> str:
        """A summary: `rewrites are 131 % as similar to texts as one fixed sentence; a classifier ...`."""
        if self.worth is None or self.fixed is None:
            parts = [] if self.scores else [NOT_MEASURED]
        elif self.share:
            parts = [f"rewrites are {self.share} as similar to texts as one fixed sentence"]
        else:
            parts = [f"rewrites have a {MEASURE} of {self.worth:.2f}, and one fixed sentence has {self.fixed:.2f}"]
        parts += [
            f"a classifier trained on rewrites has F1 {score.rewrites:.2f}{_of(score.clean)} ({score.label})"
            for score in self.scores
        ]
        return "; ".join(parts)

    @property
    def sentence(self) -> str:
        """The utility in whole sentences."""
        if self.worth is None or self.fixed is None:
            said = "The rewrites were not compared with one fixed sentence."
        else:
            share = f"{self.share} as similar to texts as" if self.share else "compared with"
            said = f"Rewrites are {share} the best fixed sentence ({MEASURE} {self.worth:.2f} and {self.fixed:.2f})."
        if self.scores:
            scores = [
                f"{score.label} F1 {score.rewrites:.2f}"
                + ("" if score.clean is None else f" ({score.clean:.2f} if trained on the texts)")
                for score in self.scores
            ]
            return f"{said} Classifiers trained on the rewrites reach {listed(scores)}."
        return f"{said} No classifier was trained on the rewrites." if self.labelled else said


def _of(clean: float | None) -> str:
    return "" if clean is None else f", trained on texts {clean:.2f}"


UNKNOWN = Kept()
Uses = Mapping[tuple[str, str, float | None], Kept]
"""The utility of rewrites, by data set, mechanism and epsilon. Cells that were not measured may be missing."""


def uses(results: TextResults) -> Uses:
    """Return the utility of the rewrites of each audited cell."""
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
    """Return scores of classifiers after training on rewrites (schema `DOWNSTREAM`); may have no rows."""
    names = ("clean", *getattr(results.params, "downstream", ()))  # only the study of anonymity has this section
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
