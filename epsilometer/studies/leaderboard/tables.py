"""The tables of the leaderboard, and their paths relative to the project's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.tables import Schema

SPLITS = 5
ANY, EQUAL = "any", "equal"  # kinds of sets, by the lengths of their texts
AVERAGE, TAIL = "average", "average and tail"  # the first and the second budget of a loss (`budgets.py`)
SIZES = (1, 3)  # numbers of blocks (one per split, see `TEXTS`) that a classifier learns from
TRAIN, TEST = "train", "test"  # the parts of a data set that are not public

TEXTS: Schema = {  # the texts of a data set, by part
    "text": pl.String,
    "task": pl.String,
    "attribute": pl.String,  # null if the text or the data set does not have it
    "part": pl.String,  # PUBLIC (`corpora.parts`), TRAIN, TEST
    "block": pl.Int64,  # the split that the text belongs to; null in the public part
}
SETS: Schema = {  # sets of ten texts; a text is a row number in the part TRAIN
    "lengths": pl.String,  # ANY, EQUAL
    "block": pl.Int64,  # the split
    "texts": pl.List(pl.Int64),
    "pair": pl.List(pl.Int64),  # the two texts of the set that are compared
}
FRONTIERS: Schema = {  # the ceiling over all sets, and the cosine of the best public text
    "lengths": pl.String,
    "one_text": pl.Float64,  # mean cosine of the best public text
    "at": pl.List(pl.Float64),  # success rates of the adversary
    "upper": pl.List(pl.Float64),  # upper bound on the ceiling at each rate
    "lower": pl.List(pl.Float64),  # lower bound on the ceiling at each rate
}

_FIGURES: Schema = {
    "learner": pl.String,  # "words", "sentences"; null for `cosine`
    "texts": pl.Int64,  # the number of texts that the learner was trained on; null for `cosine`
    "by_law": pl.Boolean,  # whether the learner used the mechanism's law (`by_law.py`)
    "values": pl.List(pl.Float64),  # one per split
}
PLAIN: Schema = {  # rows without a mechanism
    "row": pl.String,
    "figure": pl.String,  # "task", "attribute": macro F1
    **_FIGURES,
}
FIGURES: Schema = {  # the figures of a mechanism at a budget
    "lengths": pl.String,
    "budget": pl.String,  # AVERAGE, TAIL
    "figure": pl.String,  # "cosine", "task", "attribute"
    **_FIGURES,
}
ROWS: Schema = {  # the rows of a cell: one per kind of sets and kind of budget
    "dataset": pl.String,
    "mechanism": pl.String,
    "control": pl.Boolean,
    "loss": pl.Float64,  # the target: an average loss in nats
    "lengths": pl.String,
    "budget": pl.String,
    "epsilon": pl.Float64,  # null if no budget qualifies
    "reason": pl.String,  # why no budget qualifies, or why the budget misses the target
    "by": pl.String,  # the source of the loss: "law", "latents", "attacks"
    "average": pl.Float64,
    "delta_at_4": pl.Float64,
    "pure": pl.Float64,  # the largest loss of any output over the compared pairs
    "worst": pl.Float64,  # the largest guess loss of a pair
    "claim": pl.String,
    "claim_class": pl.String,
    "cosine": pl.Float64,
    "ceiling": pl.Float64,
    "one_text": pl.Float64,
    "share": pl.Float64,
    "words_a_second": pl.Float64,
}

CORPORA: Schema = {  # macro F1 of a head trained on whole corpora, or on local releases of the same public texts
    "mechanism": pl.String,
    "whole": pl.Boolean,  # a curator releases the whole corpus; False for local releases
    "loss": pl.Float64,  # the average loss that epsilon was chosen for; null for a fixed epsilon and local releases
    "epsilon": pl.Float64,  # a pure epsilon
    "average": pl.Float64,  # the average loss at this epsilon, in nats
    "texts": pl.Int64,  # the number of private texts
    "plain": pl.List(pl.Float64),  # F1 of each split, trained on local releases or exemplars labelled by noisy votes
    "spread": pl.List(pl.Float64),  # F1 of each split after post-processing, trained on all public texts
}


def corpora_path(dataset: str) -> Path:
    """Return the path of a data set's table of F1 learnt from whole corpora, schema `CORPORA`."""
    return Path("data/leaderboard_corpora", f"{dataset}.parquet")


def parts_folder(dataset: str) -> str:
    """Return the folder of the files that all cells of a data set read."""
    return f"data/leaderboard_parts/{dataset}"


def public_path(dataset: str) -> str:
    """Return the path of the public part, a table with the column `text`."""
    return f"{parts_folder(dataset)}/public.parquet"


def texts_path(dataset: str) -> str:
    """Return the path of the texts to rewrite, a table with the column `text`."""
    return f"{parts_folder(dataset)}/texts.parquet"


def rows_path(cell: str) -> Path:
    """Return the path of a cell's rows, schema `ROWS`."""
    return Path("data/leaderboard", f"{cell}.parquet")


def figures_path(cell: str) -> Path:
    """Return the path of a cell's figures, schema `FIGURES`."""
    return Path("data/leaderboard", f"{cell}.figures.parquet")
