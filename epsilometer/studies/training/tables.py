"""The tables of the study of training, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.guarantees import budget_name
from epsilometer.core.tables import Schema

RECONSTRUCTED: Schema = {  # a text whose gradient was sent, and the text that an attack found for it
    "level": pl.Float64,  # sigma or kappa; null without noise, and for the blind baseline
    "size": pl.Int64,  # of the batch
    "attack": pl.String,  # `blind`: a public text of the same length
    "batch": pl.Int64,  # its number
    "row": pl.Int64,  # the number of the text in the prepared table
    "truth": pl.String,  # as the model reads it: truncated, in its tokens
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


RECONSTRUCTION: Schema = {  # a row per level, batch size, attack and measure
    "level": pl.Float64,
    "size": pl.Int64,
    "attack": pl.String,  # `blind`; `bound`: the upper bound for every attack, without an interval
    "measure": pl.String,  # of `reconstruction.MEASURES`; truth_less_likely; information, in nats
    "texts": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def features_path(name: str) -> Path:
    """The folder of the states of a data set's texts (`training.features`)."""
    return Path(f"data/features/{name}")


def featured_path(name: str) -> Path:
    """The ids and labels of the texts in `features_path`, in the same order."""
    return features_path(name) / "texts.parquet"


def trained_path(cell: str, level: float | None, seed: int | None = None) -> Path:
    """The folder of a cell of `private_training` at one level (None: no level), or of one of its trainings."""
    folder = Path(f"data/trained/{cell}/{budget_name(level)}")
    return folder if seed is None else folder / str(seed)


HEAD_FILE = "head.safetensors"  # in the folder of a training


def head_path(cell: str, level: float | None, seed: int) -> Path:
    """The trained head of a cell at one level, by one seed."""
    return trained_path(cell, level, seed) / HEAD_FILE


def runs_path(cell: str, level: float | None) -> Path:
    """The scores of a cell's heads at one level: level, seed, split, metric, value."""
    return trained_path(cell, level) / "runs.parquet"


def budgets_path() -> Path:
    """The claimed losses of all cells of `private_training`: cell, level, neighbours, accountant, lower, upper, ..."""
    return Path("data/budgets.parquet")


def references_path(name: str) -> Path:
    """The folder of the models that membership attacks compare with."""
    return Path(f"data/references/{name}")


def membership_path(name: str, what: str | None = None) -> Path:
    """The results of membership attacks on a cell; `rates`: true positive rates at small false positive rates; `roc`:
    ROC curves; `areas`: the areas under them, with their covariance over levels.
    """
    return _table("membership", name, what)


def one_run_path(name: str) -> Path:
    """The losses that canaries prove, in one run per level."""
    return Path(f"data/one_run/{name}.parquet")


def sent_path(name: str) -> Path:
    """The folder of the gradients that clients send."""
    return Path(f"data/sent/{name}")


def reconstruction_path(name: str, what: str | None = None) -> Path:
    """The results of attacks on sent gradients: averages; `texts`: one row per text; `candidates`: guesses among k."""
    return _table("reconstruction", name, what)


def searched_path(name: str, size: int, level: float | None) -> Path:
    """The texts that an entry's attacks found in all batches of one size at one level, before measurement."""
    return Path(f"data/searched/{name}/{size}-{budget_name(level)}.json")


def training_pairs_path() -> Path:
    """Comparison of heads at equally loud noise (`studies.training.pairs`)."""
    return Path("data/training_pairs.parquet")


def training_curves_path() -> Path:
    """Every attack on training against its noise, with verdicts."""
    return Path("data/training_curves.parquet")


def _table(folder: str, name: str, what: str | None) -> Path:
    return Path(f"data/{folder}/{name}.parquet" if what is None else f"data/{folder}/{name}.{what}.parquet")
