"""The tables of the study of anonymity, and where its stages put them, relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.guarantees import budget_name
from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.tables import Schema

PRIVATIZED: Schema = {  # a rewrite, with noise of its own for each seed
    "row": pl.Int64,  # the number of its text in the prepared table
    "seed": pl.Int64,
    "side": pl.Int64,  # of a pair, 0 or 1; 0 of a single text
    "text": pl.String,
}

ANONYMIZED: Schema = {  # a rewrite; the columns of outcomes are null where the mechanism has none
    "row": pl.Int64,  # the number of its text in the prepared table
    "split": pl.String,  # train, that of the victims; test; validation
    "text": pl.String,
    **COLUMNS,
}


ANONYMITY: Schema = {  # what rewrites do to what a victim reads; a row a budget, attribute (or all), task and victim
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attribute": pl.String,  # or several that are to be hidden at once, joined by " and "
    "task": pl.String,
    "victim": pl.String,  # kind of the classifiers: "transformer", "linear", "encoder"
    "seed": pl.Int64,
    "texts": pl.Int64,  # test texts
    "groups": pl.Int64,  # of texts that are no independent observations; as many as texts without groups
    "attribute_accuracy": pl.Float64,  # of the victim on clean test texts, as is the next
    "task_accuracy": pl.Float64,
    "task_f1_clean": pl.Float64,  # macro F1 of the victim of the task, of the originals and of all texts as released
    "task_f1": pl.Float64,
    "task_f1_low": pl.Float64,  # of the latter, over texts
    "task_f1_high": pl.Float64,
    "both_right": pl.Int64,  # C: the texts whose attribute and task the victim reads right
    "rewritten": pl.Int64,  # A: those of C that got a changed rewrite (where outcomes are kept: one that was found)
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

BY_LENGTH: Schema = {  # RS_all by length of text: a row a quarter of C, from the shortest texts to the longest
    **{name: ANONYMITY[name] for name in ("dataset", "mechanism", "epsilon", "attribute", "task", "victim", "seed")},
    "shortest": pl.Int64,  # words
    "longest": pl.Int64,
    **{name: ANONYMITY[name] for name in ("both_right", "rewritten", "fooled")},
    **{f"{share}{end}": pl.Float64 for share in ("rs_all", "coverage") for end in ("", "_low", "_high")},
}

QUALITY: Schema = {  # how much changed rewrites keep of their texts: a row a metric of `quality.METRICS`
    **{name: ANONYMITY[name] for name in ("dataset", "mechanism", "epsilon")},
    "metric": pl.String,
    "texts": pl.Int64,  # test texts with a changed rewrite of which the metric is defined; no row where there is none
    **{f"mean{end}": pl.Float64 for end in ("", "_low", "_high")},
}

OUTCOMES: Schema = {  # how many test texts ended how: statuses of `core.outcomes`; no rows of a mechanism without them
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "status": pl.String,
    "texts": pl.Int64,
    "unchanged": pl.Int64,  # of these, released as they were
}

ATTACKERS: Schema = {  # who infers a label from what is released; a row an attacker, and `strongest`
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "label": pl.String,  # "rewritten" of the detector, which tells rewrites from originals
    "attacker": pl.String,  # clean (of the originals), and the names of `attackers`
    "kind": pl.String,  # of its classifier
    "seed": pl.Int64,
    "best_attacker": pl.String,  # which attacker the row `strongest` is; null in other rows
    "texts_each": pl.Int64,  # texts of one author that it reads together; 1 but of author
    "training": pl.String,  # hash of the texts and labels that it learned from; null of one that learns nothing
    "trained_on": pl.Int64,  # how many
    "classes": pl.Int64,
    "texts": pl.Int64,  # test texts, or sets of texts of one author: of these are the shares
    "accuracy": pl.Float64,
    "low": pl.Float64,  # of the accuracy, over texts
    "high": pl.Float64,
    "balanced_accuracy": pl.Float64,
    "macro_f1": pl.Float64,
    "majority": pl.Float64,  # accuracy of naming the commonest class of the training texts
    "unusable": pl.Float64,  # share of answers that name no class, which count as wrong; 0 of classifiers
    "top_3": pl.Float64,  # how often the class is among the first three named; null where one alone is named
    "trials": pl.Int64,  # test texts in equal number from each class: of these is the loss
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
    """The table of a cell's rewrites that classifiers try to see through (schema `ANONYMIZED`), at one epsilon."""
    return Path(f"data/anonymized/{cell}/{budget_name(epsilon)}.parquet")


def anonymity_path(cell: str, what: str) -> Path:
    """What a cell's rewrites hide: table `anonymity`, `by_length`, `outcomes` or `attackers`."""
    return Path(f"data/anonymity/{cell}/{what}.parquet")
