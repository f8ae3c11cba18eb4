"""The tables of utility: what rewrites keep, and what classifiers predict from them."""

from __future__ import annotations

import polars as pl

from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.tables import Schema

SIMILARITY: Schema = {  # over the first `texts` trials: the mean cosine and its interval, and BLEU of all as one corpus
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "texts": pl.Int64,
    "cosine": pl.Float64,
    "cosine_low": pl.Float64,
    "cosine_high": pl.Float64,
    "corpus_bleu": pl.Float64,  # null where `bleu` is not among the metrics
}

SIMILARITIES: Schema = {  # a row a trial and metric
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "trial": pl.Int64,
    "source": pl.Int64,  # the number of the text: rewrites of one are no independent observations
    "metric": pl.String,
    "value": pl.Float64,  # null where the metric has none
}

LEAKAGE: Schema = {  # over all trials, a row a kind of identifier: how many stand in the rewrites as they were
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "kind": pl.String,
    "identifiers": pl.Int64,
    "recorded": pl.Int64,  # by the corpus; the others were found by patterns
    "survived": pl.Int64,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}

PRIVATIZED: Schema = {  # a rewrite, with noise of its own for each seed
    "row": pl.Int64,  # the number of its text in the prepared table
    "seed": pl.Int64,
    "text": pl.String,
}

ANONYMIZED: Schema = {  # a rewrite; the columns of outcomes are null where the mechanism has none
    "row": pl.Int64,  # the number of its text in the prepared table
    "split": pl.String,  # train, that of the victims; test; validation
    "text": pl.String,
    **COLUMNS,
}

DOWNSTREAM: Schema = {  # how well a classifier predicts a label, a row a seed
    "dataset": pl.String,
    "mechanism": pl.String,  # null for the baselines
    "epsilon": pl.Float64,
    "label": pl.String,
    "role": pl.String,  # task or attribute
    "setting": pl.String,  # majority, clean; private, of a task; static, adaptive, of an attribute
    "seed": pl.Int64,
    "macro_f1": pl.Float64,
    "low": pl.Float64,  # of the mean macro F1 of all seeds, over test texts: the same for each seed
    "high": pl.Float64,
    "binary_f1": pl.Float64,  # of the last class by name; null where there are more than two
    "accuracy": pl.Float64,
    "train": pl.Int64,
    "test": pl.Int64,
    "empty": pl.Int64,  # rewrites without a character that were trained or tested on
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
    "attacker": pl.String,  # clean (of the originals), static, adaptive, augmented, relabelled, author, llm, detector
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
    "loss": pl.Float64,  # attribute loss in nats (`utility.attribute_loss`)
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "claim": pl.String,
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
}

RECONSTRUCTED: Schema = {  # a text whose gradient was sent, and what an attack found for it
    "level": pl.Float64,  # sigma or kappa; null without noise, and for the blind baseline
    "size": pl.Int64,  # of the batch
    "attack": pl.String,  # `blind`: a public text of that length
    "batch": pl.Int64,  # its number
    "row": pl.Int64,  # the number of the text in the prepared table
    "truth": pl.String,  # as the model reads it: cut, in its tokens
    "found": pl.String,
    "true_ids": pl.List(pl.Int64),  # without special tokens
    "found_ids": pl.List(pl.Int64),
    "log_likelihood": pl.Float64,  # of the whole batch found, in nats up to a term common to all texts; null if unknown
    "log_prior": pl.Float64,
    "true_log_likelihood": pl.Float64,
    "true_log_prior": pl.Float64,
    "rouge_l": pl.Float64,
    "jaccard": pl.Float64,
    "meteor": pl.Float64,
    "cosine": pl.Float64,
    "in_place": pl.Float64,
    "exact": pl.Float64,
    "identifiers": pl.Float64,  # null for a text without any
}

RECONSTRUCTION: Schema = {  # a row a level, batch size, attack and measure
    "level": pl.Float64,
    "size": pl.Int64,
    "attack": pl.String,  # `blind`; `bound`: what no attack exceeds, without an interval
    "measure": pl.String,  # of `reconstruction.MEASURES`; truth_less_likely; information, in nats
    "texts": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
