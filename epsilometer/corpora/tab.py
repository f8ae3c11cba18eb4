"""The Text Anonymization Benchmark: court cases with what must be masked (Pilan et al. 2022, arXiv:2202.00443).

A file is a JSON list of documents. Every annotator has marked mentions of entities, each as a direct identifier, as a
quasi-identifier or as neither; an entity is masked only if all its mentions that need it are. Annotators are read one
by one, so that counts over all of them are the benchmark's micro-average.

Function words, titles and marks at the ends of a mention are left out, as the benchmark ignores them; it does so by
part-of-speech tags and inside mentions too, here they are a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.core import json_text
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema

KINDS = {"DIRECT": "direct", "QUASI": "quasi", "NO_MASK": None}
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_IGNORED = frozenset(
    """
    mr mrs ms no nr about a an the this that these those of in on at by to from for with and or nor but
    """.split()  # noqa: SIM905
)
_MARKS = " ,.-;:/&()[]–'\"’“”"
_SCHEMA: Schema = {
    "text": pl.String,
    "split": pl.String,
    "document": pl.String,
    "identifiers": pl.List(pl.String),
    "identifier_kinds": pl.List(pl.String),
    "identifier_entities": pl.List(pl.String),
}


def holds(path: Path) -> bool:
    """Whether a file is JSON that begins as a list: a pin of a data set is an object."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"[")


def read(path: Path) -> pl.DataFrame:
    """The documents of a file: text, split, document (its id), and the record of identifiers.

    The record is three lists of one length: mentions, their kinds ("direct" or "quasi") and entities. Raises UserError,
    which names the document, for whatever is not in the benchmark's form.
    """
    try:
        documents = json_text.load(path.read_bytes())
    except ValueError as error:  # neither JSON nor UTF-8
        raise UserError(f"{path} is damaged ({type(error).__name__}); fetch it again") from None
    rows = []
    for number, document in enumerate(documents):
        try:
            rows.append(_row(document))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(
                f"{path}: document {number + 1} is not in the form of the Text Anonymization Benchmark "
                f"({type(error).__name__}: {error}); it needs text, dataset_type, doc_id and annotations of "
                "entity_mentions"
            ) from None
    return pl.DataFrame(rows, schema=dict(_SCHEMA), orient="row")


def _row(document: Mapping[str, Any]) -> tuple[Any, ...]:
    text = document["text"]
    if document["dataset_type"] not in _SPLITS:
        raise ValueError(f"dataset_type must be one of {', '.join(_SPLITS)}")
    mentions = [
        (mention, kind, f"{annotator} {entity}")
        for annotator, annotation in document["annotations"].items()
        for mention, kind, entity in _mentions(text, annotation["entity_mentions"])
    ]
    record = [list(column) for column in zip(*mentions, strict=True)] if mentions else [[], [], []]
    return text, _SPLITS[document["dataset_type"]], str(document["doc_id"]), *record


def _mentions(text: str, marked: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """The mentions that need masking, each distinct one once: its words, the kind of its entity, the entity."""
    kinds: dict[str, str] = {}
    distinct: dict[tuple[str, str], None] = {}
    for mention in marked:
        start, end = mention["start_offset"], mention["end_offset"]
        if not 0 <= start < end <= len(text):
            raise ValueError(f"offsets {start} to {end} are outside the text")
        entity = str(mention["entity_id"])
        if mention["identifier_type"] not in KINDS:
            raise ValueError(f"identifier_type must be one of {', '.join(KINDS)}")
        kind = KINDS[mention["identifier_type"]]
        if kind is None or not (words := _content(text[start:end])):
            continue
        kinds[entity] = "direct" if "direct" in (kind, kinds.get(entity)) else kind
        distinct[words, entity] = None
    for words, entity in distinct:
        yield words, kinds[entity], entity


def _content(mention: str) -> str:
    """A mention without what is ignored at its ends."""
    words = mention.split()
    while words and words[0].strip(_MARKS).lower() in {*_IGNORED, ""}:
        words.pop(0)
    while words and words[-1].strip(_MARKS).lower() in {*_IGNORED, ""}:
        words.pop()
    return " ".join(words).strip(_MARKS)
