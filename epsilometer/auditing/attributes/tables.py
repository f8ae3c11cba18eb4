"""The schemas of attackers' inferences from rewrites, and of the effects of rewrites on classifiers."""

from __future__ import annotations

import polars as pl

from epsilometer.core.tables import Schema

ANONYMITY: Schema = {  # effects of rewrites on a victim; a row per budget, attribute (or all), task and victim
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attribute": pl.String,  # an attribute, or several that are hidden together, joined by " and "
    "task": pl.String,
    "victim": pl.String,  # kind of the classifiers: "transformer", "linear", "encoder"
    "seed": pl.Int64,
    "texts": pl.Int64,  # test texts
    "groups": pl.Int64,  # number of groups of dependent texts; without groups, the number of texts
    "attribute_accuracy": pl.Float64,  # accuracy of the victim on clean test texts
    "task_accuracy": pl.Float64,  # accuracy of the task's victim on clean test texts
    "task_f1_clean": pl.Float64,  # macro F1 of the task's victim on the original test texts
    "task_f1": pl.Float64,  # macro F1 of the task's victim on the released texts, rewritten or not
    "task_f1_low": pl.Float64,  # interval of `task_f1`, over texts
    "task_f1_high": pl.Float64,
    "both_right": pl.Int64,  # C: the texts whose attribute and task the victim predicts right
    "rewritten": pl.Int64,  # A: texts of C with a changed rewrite (if there are outcomes: with the status "found")
    "fooled": pl.Int64,  # texts of A whose attribute the victim predicts wrong, and the task right (for rs, rs_all)
    "same_task": pl.Int64,  # texts of A for which the victim predicts the same task before and after (for ur)
    "exposed": pl.Int64,  # texts of A whose attribute the victim still predicts right (for pa)
    **{
        f"{share}{end}": pl.Float64
        for share in ("rs_all", "rs", "ur", "pa", "coverage", "ur_released", "pa_released")
        for end in ("", "_low", "_high")
    },  # rs_all: share of C; rs, ur, pa: shares of A, or null; coverage: A / C; *_released: shares of all texts
    "unchanged": pl.Int64,  # texts that are released unchanged
    "words_changed": pl.Float64,  # mean share of words changed, over all test texts (next column: over A)
    "words_changed_rewritten": pl.Float64,
    "tags_equal": pl.Float64,  # share of the changed rewrites whose part-of-speech tags are all unchanged, or null
    "asked": pl.Int64,  # number of distinct questions to auxiliaries (next column: to the victim); null if not counted
    "asked_victim": pl.Int64,
}

ATTACKERS: Schema = {  # inferences of a label from releases; a row per attacker, and `strongest`
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "label": pl.String,  # "rewritten" for the detector, which tells rewrites from originals
    "attacker": pl.String,  # a name in `attackers`; `clean` reads the originals
    "kind": pl.String,  # kind of the attacker's classifier
    "seed": pl.Int64,
    "best_attacker": pl.String,  # the attacker of the row `strongest`; null in other rows
    "texts_each": pl.Int64,  # texts of one author that the attacker reads together; 1 except for the attacker `author`
    "training": pl.String,  # hash of the texts and labels that the attacker learned from; null for a language model
    "trained_on": pl.Int64,  # number of texts that the attacker learned from
    "classes": pl.Int64,
    "texts": pl.Int64,  # test texts, or sets of texts of one author; `accuracy` is a share of these
    "accuracy": pl.Float64,
    "low": pl.Float64,  # bounds of the accuracy, over texts
    "high": pl.Float64,
    "balanced_accuracy": pl.Float64,
    "macro_f1": pl.Float64,
    "majority": pl.Float64,  # accuracy of always naming the most frequent class of the training texts
    "unusable": pl.Float64,  # share of answers that name no class, which count as wrong; 0 for classifiers
    "top_3": pl.Float64,  # share of texts whose class is among the first three named; null if only one is named
    "trials": pl.Int64,  # number of trials, equally many of each class; the loss is computed from these trials
    "successes": pl.Int64,
    "hits": pl.List(pl.Boolean),  # for each trial, True if the inference is right
    "loss": pl.Float64,  # attribute loss in nats (`auditing.attributes.attribute_loss`)
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "claim": pl.String,
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
}
