"""The tables of the study of anonymity, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.auditing.attributes.tables import ANONYMITY
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


def privatized_path(cell: str, epsilon: float) -> Path:
    """Return the path of the table of rewritten texts that classifiers are trained on, at one epsilon."""
    return Path(f"data/privatized/{cell}/{budget_name(epsilon)}.parquet")


def classifier_path(dataset: str, label: str, kind: str, seed: int) -> Path:
    """Return the folder of a classifier that was trained on the clean texts of the victims' part."""
    return Path(f"data/classifiers/{dataset}/{label}-{kind}-{seed}")


def anonymized_path(cell: str, epsilon: float | None) -> Path:
    """Return the table of a cell's rewrites that classifiers attack (schema `ANONYMIZED`), at one epsilon."""
    return Path(f"data/anonymized/{cell}/{budget_name(epsilon)}.parquet")


def anonymity_path(cell: str, what: str) -> Path:
    """Return the path of the tables of a cell's rewrites: `anonymity`, `by_length`, `outcomes` or `attackers`."""
    return Path(f"data/anonymity/{cell}/{what}.parquet")
