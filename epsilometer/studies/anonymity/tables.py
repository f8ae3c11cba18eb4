"""The tables of the study of anonymity, and their paths relative to the project's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.auditing.attributes.tables import ANONYMITY
from epsilometer.core.guarantees import budget_name
from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.tables import Schema

PRIVATIZED: Schema = {  # a row per rewrite, with fresh noise for each seed
    "row": pl.Int64,  # the row number of the text in the prepared table
    "seed": pl.Int64,
    "side": pl.Int64,  # the side of a pair, 0 or 1; 0 for a single text
    "text": pl.String,  # the rewrite
}

ANONYMIZED: Schema = {  # a row per rewrite
    "row": pl.Int64,  # the row number of the text in the prepared table
    "split": pl.String,  # "train" (the victims' part), "test", "validation"
    "text": pl.String,  # the rewrite
    **COLUMNS,  # null for a mechanism without outcomes
}


BY_LENGTH: Schema = {  # RS_all by length of text: a row per quarter of the texts in `both_right` of `ANONYMITY`
    **{name: ANONYMITY[name] for name in ("dataset", "mechanism", "epsilon", "attribute", "task", "victim", "seed")},
    "shortest": pl.Int64,  # words of the shortest text in the quarter
    "longest": pl.Int64,  # words of the longest text in the quarter
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
    "unchanged": pl.Int64,  # the number of these texts that were released unchanged
}


def privatized_path(cell: str, epsilon: float) -> Path:
    """Return the path of the rewrites that classifiers are trained on (schema `PRIVATIZED`), at one epsilon."""
    return Path(f"data/privatized/{cell}/{budget_name(epsilon)}.parquet")


def classifier_path(dataset: str, label: str, kind: str, seed: int) -> Path:
    """Return the folder of a classifier that is trained on clean texts of the victims' part."""
    return Path(f"data/classifiers/{dataset}/{label}-{kind}-{seed}")


def anonymized_path(cell: str, epsilon: float | None) -> Path:
    """Return the path of a cell's rewrites that classifiers attack (schema `ANONYMIZED`), at one epsilon."""
    return Path(f"data/anonymized/{cell}/{budget_name(epsilon)}.parquet")


def anonymity_path(cell: str, what: str) -> Path:
    """Return the path of a table about a cell's rewrites.

    what: `anonymity`, `by_length`, `quality`, `outcomes` or `attackers`.
    """
    return Path(f"data/anonymity/{cell}/{what}.parquet")
