"""Metrics of five rewrites per cell, as input of the report's section on similarity."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.cells.tables import SIMILARITIES, SIMILARITY
from tests.support.audited import HOSTILE, tables_of_all

COSINES = [0.1, 0.9, 0.5, 0.3, 0.7]  # cosines of trials 0 to 4; trials 3, 2 and 4 are the quartiles


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


def similarity() -> pl.DataFrame:
    """Return cosine and BLEU over all texts, for the same cells."""
    rows = [
        ("queries", mechanism, epsilon, 5, 0.5, 0.4, 0.6, 0.25 if mechanism == HOSTILE else 1.0)
        for mechanism, epsilon in ((HOSTILE, 0.5), (HOSTILE, 5.0), ("identity", 1.0))
    ]
    return pl.DataFrame(rows, schema=dict(SIMILARITY), orient="row")


def leakage() -> pl.DataFrame:
    """Return the leakage of 20 identifiers for the same cells: none, a quarter and all of them survive."""
    counts = [
        ("queries", mechanism, epsilon, kind, 20, recorded, leaked, 0, leaked / 20, *clopper_pearson(leaked, 20, 0.01))
        for mechanism, epsilon, leaked in ((HOSTILE, 0.5, 0), (HOSTILE, 5.0, 5), ("identity", 1.0, 20))
        for kind, recorded in (("name", 20), ("all", 15))
    ]
    return pl.DataFrame(counts, schema=dict(LEAKAGE), orient="row")


def similarity_tables() -> dict[str, pl.DataFrame]:
    """Return the tables that `audited.audit` needs for the section on similarity."""
    others = tables_of_all()["similarity"].filter(pl.col("mechanism") != "identity")
    return {"similarities": each(), "leakage": leakage(), "similarity": pl.concat([others, similarity()])}
