"""The tables of the study of anonymity, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.guarantees import budget_name
from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.tables import Schema

PRIVATIZED: Schema = {  # a rewrite, with fresh noise for each seed
    "row": pl.Int64,  # the number of its text in the prepared table
    "seed": pl.Int64,
    "side": pl.Int64,  # of a pair, 0 or 1; 0 for a single text
    "text": pl.String,
}

ANONYMIZED: Schema = {  # a rewrite; the columns of outcomes are null for a mechanism without outcomes
    "row": pl.Int64,  # the number of its text in the prepared table
    "split": pl.String,  # train, that of the victims; test; validation
    "text": pl.String,
    **COLUMNS,
}


ANONYMITY: Schema = {  # effects of rewrites on a victim; a row per budget, attribute (or all), task and victim
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attribute": pl.String,  # or several hidden together, joined by " and "
    "task": pl.String,
    "victim": pl.String,  # kind of the classifiers: "transformer", "linear", "encoder"
    "seed": pl.Int64,
    "texts": pl.Int64,  # test texts
    "groups": pl.Int64,  # of dependent texts; without groups, the number of texts
    "attribute_accuracy": pl.Float64,  # of the victim on clean test texts, as is the next
    "task_accuracy": pl.Float64,
    "task_f1_clean": pl.Float64,  # macro F1 of the victim of the task, on originals and on all texts as released
    "task_f1": pl.Float64,
    "task_f1_low": pl.Float64,  # of the F1 as released, over texts
    "task_f1_high": pl.Float64,
    "both_right": pl.Int64,  # C: the texts whose attribute and task the victim reads right
    "rewritten": pl.Int64,  # A: those of C with a changed rewrite (if there are outcomes: with the status "found")
    "fooled": pl.Int64,  # those of A whose attribute it then reads wrong and whose task it reads right: RS, RS_all
    "same_task": pl.Int64,  # those of A whose task it reads as before: UR
    "exposed": pl.Int64,  # those of A whose attribute it still reads right: PA
    **{
        f"{share}{end}": pl.Float64
        for share in ("rs_all", "rs", "ur", "pa", "coverage", "ur_released", "pa_released")
        for end in ("", "_low", "_high")
    },  # rs_all of C; rs, ur, pa of A, null where A is empty; coverage = A / C; the last two of all texts, as released
    "unchanged": pl.Int64,  # texts that are released as they were
    "words_changed": pl.Float64,  # mean share of all test texts, and of A (null where it is empty)
    "words_changed_rewritten": pl.Float64,
    "tags_equal": pl.Float64,  # share of the changed rewrites with all part-of-speech tags equal; null without any
    "asked": pl.Int64,  # distinct questions to auxiliaries over the test texts, and to the victim; null: not counted
    "asked_victim": pl.Int64,
}

BY_LENGTH: Schema = {  # RS_all by length of text: a row per quarter of C, from the shortest texts to the longest
    **{name: ANONYMITY[name] for name in ("dataset", "mechanism", "epsilon", "attribute", "task", "victim", "seed")},
    "shortest": pl.Int64,  # words
    "longest": pl.Int64,
    **{name: ANONYMITY[name] for name in ("both_right", "rewritten", "fooled")},
    **{f"{share}{end}": pl.Float64 for share in ("rs_all", "coverage") for end in ("", "_low", "_high")},
}

QUALITY: Schema = {  # quality of changed rewrites relative to their texts: a row per metric of `quality.METRICS`
    **{name: ANONYMITY[name] for name in ("dataset", "mechanism", "epsilon")},
    "metric": pl.String,
    "texts": pl.Int64,  # test texts with a changed rewrite for which the metric is defined; no row if there are none
    **{f"mean{end}": pl.Float64 for end in ("", "_low", "_high")},
}

OUTCOMES: Schema = {  # numbers of test texts by status (`core.outcomes`); no rows for a mechanism without outcomes
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "status": pl.String,
    "texts": pl.Int64,
    "unchanged": pl.Int64,  # of these texts, released unchanged
}

ATTACKERS: Schema = {  # inferences of a label from releases; a row per attacker, and `strongest`
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "label": pl.String,  # "rewritten" for the detector, which tells rewrites from originals
    "attacker": pl.String,  # clean (on the originals), and the names of `attackers`
    "kind": pl.String,  # of its classifier
    "seed": pl.Int64,
    "best_attacker": pl.String,  # the attacker of the row `strongest`; null in other rows
    "texts_each": pl.Int64,  # texts of one author that it reads together; 1 except for author
    "training": pl.String,  # hash of the texts and labels that it learned from; null if it learns nothing
    "trained_on": pl.Int64,  # number of those texts
    "classes": pl.Int64,
    "texts": pl.Int64,  # test texts, or sets of texts of one author; the shares are of these
    "accuracy": pl.Float64,
    "low": pl.Float64,  # of the accuracy, over texts
    "high": pl.Float64,
    "balanced_accuracy": pl.Float64,
    "macro_f1": pl.Float64,
    "majority": pl.Float64,  # accuracy of always naming the most frequent class of the training texts
    "unusable": pl.Float64,  # share of answers that name no class, which count as wrong; 0 for classifiers
    "top_3": pl.Float64,  # share of units whose class is among the first three named; null if only one is named
    "trials": pl.Int64,  # test texts in equal number from each class; the loss is of these
    "successes": pl.Int64,
    "hits": pl.List(pl.Boolean),  # of these trials
    "loss": pl.Float64,  # attribute loss in nats (`studies.anonymity.attribute_loss`)
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "claim": pl.String,
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
}


def privatized_path(cell: str, epsilon: float) -> Path:
    """The table of rewritten texts that classifiers are trained on, at one epsilon."""
    return Path(f"data/privatized/{cell}/{budget_name(epsilon)}.parquet")


def classifier_path(dataset: str, label: str, kind: str, seed: int) -> Path:
    """The folder of a classifier that was trained on the clean texts of the victims' part."""
    return Path(f"data/classifiers/{dataset}/{label}-{kind}-{seed}")


def anonymized_path(cell: str, epsilon: float | None) -> Path:
    """The table of a cell's rewrites that classifiers attack (schema `ANONYMIZED`), at one epsilon."""
    return Path(f"data/anonymized/{cell}/{budget_name(epsilon)}.parquet")


def anonymity_path(cell: str, what: str) -> Path:
    """The tables of a cell's rewrites: `anonymity`, `by_length`, `outcomes` or `attackers`."""
    return Path(f"data/anonymity/{cell}/{what}.parquet")
