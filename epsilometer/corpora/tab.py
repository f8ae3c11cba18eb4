"""The Text Anonymization Benchmark: court cases with marked identifiers (Pilan et al. 2022, arXiv:2202.00443).

A file is a JSON list of documents. Every annotator has marked mentions of entities, each as a direct identifier, as a
quasi-identifier or as neither. Direct and quasi-identifiers need masking. An entity counts as masked only if all its
mentions that need masking are masked. Each annotator's entities are separate, so counts over all annotators give the
benchmark's micro-average. A document becomes a row with three lists of equal length: mentions, their kinds ("direct" or
"quasi") and their entities. A mention's `span_text` must be the text between its offsets.

Function words, titles and punctuation at the ends of a mention are left out, since the benchmark ignores them. This
module takes function words from a fixed list. The benchmark finds them by part-of-speech tags, and ignores them inside
mentions, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from epsilometer.core.tables import Schema
from epsilometer.corpora import spans

KINDS = {"DIRECT": "direct", "QUASI": "quasi", "NO_MASK": None}
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_IGNORED = frozenset(
    """
    mr mrs ms no nr about a an the this that these those of in on at by to from for with and or nor but
    """.split()  # noqa: SIM905
)
_MARKS = " ,.-;:/&()[]–'\"’“”"
SCHEMA: Schema = {
    "text": pl.String,
    "split": pl.String,
    "document": pl.String,
    "identifiers": pl.List(pl.String),
    "identifier_kinds": pl.List(pl.String),
    "identifier_entities": pl.List(pl.String),
}


def row(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a document's columns of SCHEMA. Raises KeyError, TypeError or ValueError for another form."""
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
    """Yield the distinct mentions that need masking: the words, the kind of the entity, and the entity."""
    kinds: dict[str, str] = {}
    distinct: dict[tuple[str, str], None] = {}
    for mention in marked:
        span = spans.value(text, mention["start_offset"], mention["end_offset"], mention.get("span_text"))
        entity = str(mention["entity_id"])
        if mention["identifier_type"] not in KINDS:
            raise ValueError(f"identifier_type must be one of {', '.join(KINDS)}")
        kind = KINDS[mention["identifier_type"]]
        if kind is None or not (words := _content(span)):
            continue
        kinds[entity] = "direct" if "direct" in (kind, kinds.get(entity)) else kind
        distinct[words, entity] = None
    for words, entity in distinct:
        yield words, kinds[entity], entity


def _content(mention: str) -> str:
    """Return a mention without the ignored words and marks at its ends."""
    words = mention.split()
    while words and words[0].strip(_MARKS).lower() in {*_IGNORED, ""}:
        words.pop(0)
    while words and words[-1].strip(_MARKS).lower() in {*_IGNORED, ""}:
        words.pop()
    return " ".join(words).strip(_MARKS)
