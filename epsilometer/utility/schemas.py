"""The tables of utility: what rewrites keep, and what classifiers make of them."""

from __future__ import annotations

import polars as pl

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
