"""What metrics say of five rewrites a cell, as the report's section takes it."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.estimation import clopper_pearson
from epsilometer.core.tables import LEAKAGE, SIMILARITIES, SIMILARITY
from epsilometer.report.similarity import (
    QUARTILES,
    Kept,
    quartiles,
)
from tests.support.audited import HOSTILE

COSINES = [0.1, 0.9, 0.5, 0.3, 0.7]  # of trials 0 to 4: quartiles at trials 3, 2 and 4


def each() -> pl.DataFrame:
    rows = []
    for mechanism, epsilon in ((HOSTILE, 0.5), (HOSTILE, 5.0), ("identity", 1.0)):
        for trial, cosine in enumerate(COSINES):
            cell = ("queries", mechanism, epsilon, trial, trial)
            rows += [
                (*cell, "cosine", 1.0 if mechanism == "identity" else cosine),
                (*cell, "perplexity", None if trial == 1 else 10.0 ** (trial + 1)),
            ]
    return pl.DataFrame(rows, schema=dict(SIMILARITIES), orient="row")


def kept(dataset: str = "queries") -> Kept:
    table = each()
    texts = {
        "original": pl.lit(HOSTILE),
        "rewrite": pl.when(pl.col("trial") == 2).then(pl.lit("")).otherwise(pl.lit("x")),
    }
    summary = [
        ("queries", mechanism, epsilon, 5, 0.5, 0.4, 0.6, 0.25 if mechanism == HOSTILE else 1.0)
        for mechanism, epsilon in ((HOSTILE, 0.5), (HOSTILE, 5.0), ("identity", 1.0))
    ]
    counts = [
        ("queries", mechanism, epsilon, kind, 20, recorded, kept, kept / 20, *clopper_pearson(kept, 20, 0.01))
        for mechanism, epsilon, kept in ((HOSTILE, 0.5, 0), (HOSTILE, 5.0, 5), ("identity", 1.0, 20))
        for kind, recorded in (("name", 20), ("all", 15))
    ]
    return Kept(
        summary=pl.DataFrame(summary, schema=dict(SIMILARITY), orient="row"),
        each=table,
        leakage=pl.DataFrame(counts, schema=dict(LEAKAGE), orient="row"),
        quartiles=quartiles(table).with_columns(**texts, dataset=pl.lit(dataset)).select(list(QUARTILES)),
        alpha=0.01,
    )
