"""Presidio's form of annotated texts, which presidio-research's generator and evaluator read and write.

A file is a JSON list of objects with `full_text` and `spans`. A span has `entity_type`, `start_position` and
`end_position`. It may have `entity_value`, which is used to check the positions. Each span is one identifier. Its kind
is the type in lower case, such as "phone number".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from epsilometer.core.tables import Schema
from epsilometer.corpora import spans

SCHEMA: Schema = {
    "text": pl.String,
    "identifiers": pl.List(pl.String),
    "identifier_kinds": pl.List(pl.String),
}


def row(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a document's columns of SCHEMA. Raises KeyError, TypeError or ValueError for another form."""
    text = document["full_text"]
    if not isinstance(text, str):
        raise TypeError("full_text must be a string")
    values: dict[tuple[str, str], None] = {}
    for span in document["spans"]:
        value = spans.value(text, span["start_position"], span["end_position"], span.get("entity_value"))
        values[value, str(span["entity_type"]).lower().replace("_", " ")] = None
    return text, [value for value, _ in values], [kind for _, kind in values]
