"""The table of planted identifiers that a service let through."""

from __future__ import annotations

import polars as pl

from epsilometer.core.tables import Schema

FAILURES: Schema = {  # a row per place where planted identifiers may appear
    "place": pl.String,
    "requests": pl.Int64,  # requests whose identifiers could appear there
    "shown": pl.Int64,  # requests with at least one identifier that appeared
    "rate": pl.Float64,  # shown / requests
    "low": pl.Float64,  # lower bound on the rate
    "high": pl.Float64,  # upper bound on the rate
    "whole": pl.Int64,  # requests whose identifiers all appeared
    "unseen": pl.Float64,  # rate at which none of the requests would show an identifier, with probability alpha
    "kinds": pl.String,  # kinds of the identifiers that appeared, with counts; null for none
    "shapes": pl.String,  # shapes of the requests whose identifiers appeared, with counts; null for none
}
