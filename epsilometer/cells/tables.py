"""The tables of cells, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.guarantees import budget_name
from epsilometer.core.tables import Schema

SIMILARITY: Schema = {  # over the first `texts` trials: the mean cosine, its interval, and the corpus BLEU
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "texts": pl.Int64,
    "cosine": pl.Float64,
    "cosine_low": pl.Float64,
    "cosine_high": pl.Float64,
    "corpus_bleu": pl.Float64,  # null if `bleu` is not among the metrics
}


SIMILARITIES: Schema = {  # a row per trial and metric
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "trial": pl.Int64,
    "source": pl.Int64,  # the number of the text: rewrites of the same text are not independent observations
    "metric": pl.String,
    "value": pl.Float64,  # null if the metric has no value
}


WAYS: Schema = {  # macro F1 of a learner under three ways to share labelled texts (`auditing.corpora.ways`)
    "dataset": pl.String,
    "label": pl.String,
    "way": pl.String,  # "public": only public texts; "rewrites": private texts, each rewritten; "release": a corpus
    "mechanism": pl.String,  # null except for rewrites
    "epsilon": pl.Float64,
    "texts": pl.Int64,  # number of texts in a fold: labelled by hand, rewritten, or in the released corpus
    "f1": pl.List(pl.Float64),  # F1 on each held-out fold
    "reach": pl.Float64,  # half-width of the 99 % interval of the mean F1 (`auditing.corpora.folds`)
    "choice": pl.Float64,  # mean F1 on separate texts, to choose a mechanism and budget; null except for rewrites
    "loss": pl.Float64,  # guess loss between two texts under the noise of a release; null except for releases
}


def ways_path() -> Path:
    """Return the path of a learner's macro F1 under each way to share texts (schema `WAYS`)."""
    return Path("data/ways.parquet")


def sets_path(dataset: str) -> Path:
    """Return the path of the sets of texts that trials use (schema `SETS`). Other trials have no rows."""
    return Path(f"data/trials/{dataset}.sets.parquet")


def ceilings_path() -> Path:
    """Return the path of the ceiling of worth, for each data set with trials of sets (schema `CEILINGS`)."""
    return Path("data/ceilings.parquet")


def possible_path() -> Path:
    """Return the path of the share of the possible, for each cell with trials of sets (schema `POSSIBLE`)."""
    return Path("data/possible.parquet")


def rewrites_path(cell: str, epsilon: float | None) -> Path:
    """Return the path of a cell's rewrites at one epsilon; `none.parquet` for a mechanism without a budget."""
    return Path(f"data/rewrites/{cell}/{budget_name(epsilon)}.parquet")


def stated_path(cell: str) -> Path:
    """Return the path of the statements of a cell's mechanism at each epsilon (`auditing.claims.stated`)."""
    return Path(f"data/rewrites/{cell}/stated.json")


def readings_path(cell: str) -> Path:
    """Return the path of the network's outputs for the texts in trials, float32 [rows, width]. May be empty."""
    return Path(f"data/readings/{cell}.npy")


def encoded_path(cell: str) -> Path:
    """Return the path of the sentence embeddings of a cell's rewrites that an attack computed (`encoded.py`)."""
    return Path(f"data/encoded/{cell}.npz")


def tokens_path(cell: str) -> Path:
    """Return the path of the mechanism's tokens of the first audited text (schema `TOKENS`). May have no rows."""
    return Path(f"data/tokens/{cell}.parquet")


def latents_path(cell: str, epsilon: float | None) -> Path:
    """Return the path of the latents of a cell's trials, with the noise at an epsilon. None: without noise."""
    return Path(f"data/rewrites/{cell}/{'before' if epsilon is None else budget_name(epsilon)}.npy")


def exact_path(cell: str) -> Path:
    """Return the path of the exact losses of a cell (schema `EXACT`)."""
    return Path(f"data/exact/{cell}.parquet")


def attributes_path(cell: str) -> Path:
    """Return the path of upper bounds on attribute losses, from the mechanism's law (schema `ATTRIBUTE_LOSSES`)."""
    return Path(f"data/attribute_losses/{cell}.parquet")


def decisions_path() -> Path:
    """Return the path of the decision on each cell under the stated limits (schema `DECISIONS`)."""
    return Path("data/decisions.parquet")


def curves_path(cell: str) -> Path:
    """Return the path of a cell's delta at each level of loss, from the mechanism's law (schema `EXACT_CURVES`)."""
    return Path(f"data/exact/{cell}.curves.parquet")


def varied_path(what: str, cell: str) -> Path:
    """Return the path of a cell's ablations (what: `ablations` or `first_tokens`) or sweeps (`sweeps`)."""
    return Path(f"data/varied/{what}/{cell}.parquet")
