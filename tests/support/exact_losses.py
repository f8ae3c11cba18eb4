"""Tables of exact losses, as an audit's stage writes them: randomised response on pairs of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from epsilometer.auditing.claims.verdicts import NOT_CHECKED
from epsilometer.auditing.schemas import EXACT, EXACT_CURVES

LEVELS = np.arange(0, 20, 0.25)
Cell = tuple[str, str, float]  # data set, mechanism, nominal epsilon


def losses(averages: Mapping[Cell, float], latents: Sequence[str] = (), verdict: str = NOT_CHECKED) -> pl.DataFrame:
    """Return rows of `EXACT` for each cell, with these averages over pairs of equal length (an eighth of all pairs).

    The median is half the average, the 95 % quantile twice the average, and the worst pair three times the average. The
    largest loss of an output is ten times the average for texts of equal length, and infinite for other pairs. latents:
    mechanisms whose law describes latents; their losses do not depend on the length of texts.
    """
    rows = []
    for (dataset, mechanism, epsilon), average in averages.items():
        inside = mechanism in latents
        for pairs, share, more in (("equal length", 0.125, 0.0), ("all", 1.0, 0.0 if inside else 2.0)):
            of_pairs = average + more
            rows.append(
                {
                    "dataset": dataset, "mechanism": mechanism, "epsilon": epsilon, "pairs": pairs,
                    "compared": round(1000 * share), "there": 8000, "texts": 200, "above_4": 3, "share": share,
                    "sees": "latents" if inside else "text", "released": not inside,
                    "average": of_pairs, "average_low": of_pairs - 0.01, "average_high": of_pairs + 0.01,
                    "all_low": of_pairs - 0.01, "all_high": of_pairs + 0.01,
                    "all_delta_at_4_low": 0.001, "all_delta_at_4": 0.002,
                    "median": 0.5 * of_pairs, "q95": 2 * of_pairs, "worst": 3 * of_pairs,
                    "worst_x": 0, "worst_other": 1,
                    "relative_epsilon": math.inf if more else 10 * average, "relative_method": "all pairs",
                    "claim": f"{epsilon:g} per word", "claimed": 40.0, "claimed_delta": 0.0, "delta_at_claim": 0.0,
                    "delta_at_4_low": 0.001, "delta_at_4": 0.002,
                    "verdict": verdict, "method": "exact", "error": 0.01,
                }
            )  # fmt: skip
    return pl.DataFrame(rows, schema=dict(EXACT))


def curves(exact: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `EXACT_CURVES` for rows of `EXACT`: randomised response with their average as epsilon."""
    tables = []
    for row in exact.to_dicts():
        average = min(row["average"], 700.0)
        delta = np.clip((math.exp(average) - np.exp(LEVELS)) / (math.exp(average) + 1), 0, 1)
        of = {name: row[name] for name in ("dataset", "mechanism", "epsilon", "pairs")}
        columns = {"level": LEVELS, "delta_low": delta, "delta_high": delta, "worst_high": delta}
        tables.append(pl.DataFrame(columns).with_columns(**{name: pl.lit(value) for name, value in of.items()}))
    return pl.concat([pl.DataFrame(schema=dict(EXACT_CURVES)), *(table.select(list(EXACT_CURVES)) for table in tables)])
