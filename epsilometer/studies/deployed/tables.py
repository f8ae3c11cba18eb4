"""The table of what a service lets through."""

from __future__ import annotations

import polars as pl

from epsilometer.core.tables import Schema

FAILURES: Schema = {  # a row per place where a service may show what it should have removed
    "place": pl.String,
    "requests": pl.Int64,  # requests that could show something there
    "shown": pl.Int64,  # requests that did
    "rate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "whole": pl.Int64,  # requests that showed every value planted in them
    "unseen": pl.Float64,  # rate at which none of the requests would show anything, with probability alpha
    "kinds": pl.String,  # kinds of identifiers that were shown, with counts; null for none
    "shapes": pl.String,  # shapes of the requests that showed something; null for none
}
