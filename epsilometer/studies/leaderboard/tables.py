"""The tables of the leaderboard, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.core.tables import Schema

SPLITS = 5
ANY, EQUAL = "any", "equal"  # lengths of the texts of a set
AVERAGE, TAIL = "average", "average and tail"  # the two budgets of a loss
SIZES = (1, 3)  # numbers of training texts, in blocks
TRAIN, TEST = "train", "test"  # parts beside the public part

TEXTS: Schema = {  # the texts of a data set, by part
    "text": pl.String,
    "task": pl.String,
    "attribute": pl.String,  # null if the text or the data set does not have it
    "part": pl.String,  # PUBLIC (`corpora.parts`), TRAIN, TEST
    "block": pl.Int64,  # of TRAIN and TEST: the split that the text belongs to
}
SETS: Schema = {  # trials of sets: texts are numbers of rows of the part TRAIN
    "lengths": pl.String,
    "block": pl.Int64,
    "texts": pl.List(pl.Int64),
    "pair": pl.List(pl.Int64),
}
FRONTIERS: Schema = {  # the ceiling over all sets, and the cosine of the best public text
    "lengths": pl.String,
    "one_text": pl.Float64,
    "at": pl.List(pl.Float64),
    "upper": pl.List(pl.Float64),
    "lower": pl.List(pl.Float64),
}

_FIGURES: Schema = {
    "learner": pl.String,  # "words", "sentences"; null for `cosine`
    "texts": pl.Int64,  # the number that it learnt from; null for `cosine`
    "by_law": pl.Boolean,
    "values": pl.List(pl.Float64),  # one per split
}
PLAIN: Schema = {  # rows that need no mechanism
    "row": pl.String,
    "figure": pl.String,  # "task", "attribute": macro F1
    **_FIGURES,
}
FIGURES: Schema = {  # of a mechanism at a budget
    "lengths": pl.String,
    "budget": pl.String,  # AVERAGE, TAIL
    "figure": pl.String,  # "cosine", "task", "attribute"
    **_FIGURES,
}
ROWS: Schema = {  # of a cell: two lengths, with two budgets each
    "dataset": pl.String,
    "mechanism": pl.String,
    "control": pl.Boolean,
    "loss": pl.Float64,
    "lengths": pl.String,
    "budget": pl.String,
    "epsilon": pl.Float64,  # null if no budget is within the loss
    "reason": pl.String,  # why epsilon is null
    "by": pl.String,  # the source of the loss: "law", "latents", "attacks"
    "average": pl.Float64,
    "delta_at_4": pl.Float64,
    "pure": pl.Float64,  # the largest loss of any output over the pairs compared
    "worst": pl.Float64,  # the largest guess loss of a pair
    "claim": pl.String,
    "claim_class": pl.String,
    "cosine": pl.Float64,
    "ceiling": pl.Float64,
    "one_text": pl.Float64,
    "share": pl.Float64,
    "words_a_second": pl.Float64,
}

CORPORA: Schema = {  # what whole corpora and local releases of the same public texts teach a head
    "mechanism": pl.String,
    "whole": pl.Boolean,  # released centrally, as a whole
    "loss": pl.Float64,  # the average loss that epsilon was chosen for; null for a stated one, and for local ones
    "epsilon": pl.Float64,  # pure
    "average": pl.Float64,
    "texts": pl.Int64,
    "plain": pl.List(pl.Float64),  # macro F1 of each split from releases, or exemplars with their votes, as they are
    "spread": pl.List(pl.Float64),  # after the same post-processing
}


def corpora_path(dataset: str) -> Path:
    """The F1 of heads that learn from whole corpora, of schema `CORPORA`."""
    return Path("data/leaderboard_corpora", f"{dataset}.parquet")


def parts_folder(dataset: str) -> str:
    """The folder of the files that all cells of a data set read."""
    return f"data/leaderboard_parts/{dataset}"


def public_path(dataset: str) -> str:
    """The public part, with a column `text`."""
    return f"{parts_folder(dataset)}/public.parquet"


def texts_path(dataset: str) -> str:
    """The texts to rewrite, with a column `text`."""
    return f"{parts_folder(dataset)}/texts.parquet"


def rows_path(cell: str) -> Path:
    """A cell's rows, of schema `ROWS`."""
    return Path("data/leaderboard", f"{cell}.parquet")


def figures_path(cell: str) -> Path:
    """A cell's figures, of schema `FIGURES`."""
    return Path("data/leaderboard", f"{cell}.figures.parquet")
