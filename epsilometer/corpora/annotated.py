"""Texts with annotated spans: a JSON list in the form of the Text Anonymization Benchmark or of Presidio.

presidio-research's generator and evaluator read and write Presidio's form: a list of objects with `full_text` and
`spans`. A span has `entity_type`, `start_position` and `end_position`. It may have `entity_value`, which is used to
check the positions. Each span is one identifier. Its kind is the type in lower case, such as "phone number".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from epsilometer.core import json_text
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.corpora import spans, tab

PRESIDIO: Schema = {
    "text": pl.String,
    "identifiers": pl.List(pl.String),
    "identifier_kinds": pl.List(pl.String),
}


class _Form(NamedTuple):
    """A form of documents."""

    schema: Schema
    row: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Returns a document's columns of the schema. Raises KeyError, TypeError or ValueError for another form."""
    description: str


def _presidio_row(document: Mapping[str, Any]) -> tuple[Any, ...]:
    text = document["full_text"]
    if not isinstance(text, str):
        raise TypeError("full_text must be a string")
    values: dict[tuple[str, str], None] = {}
    for span in document["spans"]:
        value = spans.value(text, span["start_position"], span["end_position"], span.get("entity_value"))
        values[value, str(span["entity_type"]).lower().replace("_", " ")] = None
    return text, [value for value, _ in values], [kind for _, kind in values]


_TAB = _Form(
    tab.SCHEMA,
    tab.row,
    "the form of the Text Anonymization Benchmark (text, dataset_type, doc_id and annotations of entity_mentions)",
)
_PRESIDIO = _Form(
    PRESIDIO, _presidio_row, "Presidio's form (full_text, and spans with entity_type, start_position and end_position)"
)


def holds(path: Path) -> bool:
    """Return True if a .json file begins with a list. (A pin of a data set begins with an object.)"""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"[")


def read(path: Path) -> pl.DataFrame:
    """Return the texts of a file with their annotated identifiers: columns of `tab.SCHEMA` or of `PRESIDIO`.

    The first document decides between the two forms. Raises UserError for a damaged file, and for a document in another
    form. No error quotes a text.
    """
    try:
        documents = json_text.load(path.read_bytes())
    except ValueError as error:  # neither JSON nor UTF-8
        raise UserError(f"{path} is damaged ({type(error).__name__}); fetch it again", "EPS-D001") from None
    form = _PRESIDIO if documents and isinstance(documents[0], dict) and "full_text" in documents[0] else _TAB
    rows = []
    for number, document in enumerate(documents, 1):
        if (wrong := json_text.no_text(document)) is not None:
            raise UserError(
                f"{path}: document {number} contains {wrong}; remove the character, or write it whole", "EPS-D002"
            )
        try:
            rows.append(form.row(document))
        except spans.DisagreementError as error:
            raise UserError(
                f"{path}: document {number}: {error}. Count positions in characters (code points), not in bytes or "
                "UTF-16 units, and leave out white space at the ends",
                "EPS-D003",
            ) from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{path}: document {number} is not in {form.description}: {said}; for a list of records use .jsonl",
                "EPS-D004",
            ) from None
    return pl.DataFrame(rows, schema=dict(form.schema), orient="row")
