"""The Text Anonymization Benchmark: documents in its form, and survival of their entities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epsilometer.auditing.worth.leakage import identifiers, leakage
from epsilometer.corpora.reading import prepare, read
from tests.support.refusals import refused

TEXT = "Mr John Smith lives in Leeds. Smith was born on 3 May 1970, and Mr Smith is a teacher."


def mention(words: str, kind: str, entity: str, occurrence: int = 0) -> dict[str, Any]:
    start = -1
    for _ in range(occurrence + 1):
        start = TEXT.index(words, start + 1)
    return {
        "entity_type": "PERSON", "entity_mention_id": f"{entity}-{start}", "start_offset": start,
        "end_offset": start + len(words), "span_text": words, "edit_type": "check", "identifier_type": kind,
        "entity_id": entity, "confidential_status": "NOT_CONFIDENTIAL",
    }  # fmt: skip


def document(mentions: dict[str, list[dict[str, Any]]], **changes: Any) -> dict[str, Any]:
    marked = {annotator: {"entity_mentions": some} for annotator, some in mentions.items()}
    return {
        "annotations": marked, "dataset_type": "dev", "doc_id": "001-61807", "meta": {"year": 2005},
        "quality_checked": True, "task": "Task: Annotate the document", "text": TEXT,
    } | changes  # fmt: skip


ONE = [
    mention("Mr John Smith", "DIRECT", "e1"),
    mention("Smith", "DIRECT", "e1", 1),
    mention("Mr Smith", "NO_MASK", "e1"),
    mention("in Leeds", "QUASI", "e2"),
    mention("3 May 1970", "QUASI", "e3"),
    mention("a teacher", "NO_MASK", "e4"),
]
OTHER = [mention("John Smith", "DIRECT", "f1"), mention("3 May 1970", "DIRECT", "f2")]


def write(folder: Path, *documents: Any) -> Path:
    path = folder / "echr.json"
    path.write_text(json.dumps(documents))
    return path


def test_mentions_of_every_annotator_with_kinds_and_entities(tmp_path: Path) -> None:
    table = read(write(tmp_path, document({"annotator1": ONE, "annotator2": OTHER}), document({}, dataset_type="test")))
    assert table["split"].to_list() == ["validation", "test"]
    first = table.row(0, named=True)
    record = list(zip(first["identifiers"], first["identifier_kinds"], first["identifier_entities"], strict=True))
    assert record == [
        ("John Smith", "direct", "annotator1 e1"),
        ("Smith", "direct", "annotator1 e1"),
        ("Leeds", "quasi", "annotator1 e2"),
        ("3 May 1970", "quasi", "annotator1 e3"),
        ("John Smith", "direct", "annotator2 f1"),
        ("3 May 1970", "direct", "annotator2 f2"),
    ]
    assert table["identifiers"][1].to_list() == []
    assert prepare(table).table["identifier_entities"][0].to_list() == first["identifier_entities"]


@pytest.mark.parametrize(
    ("rewrite", "survived"),
    [
        ("Somebody lives somewhere. He was born then, and is a teacher.", {"direct": 0, "quasi": 0}),
        ("Somebody lives in Leeds. He was born then, and Dr John Smith is a teacher.", {"direct": 2, "quasi": 1}),
        ("Somebody lives somewhere. Smith was born then.", {"direct": 1, "quasi": 0}),  # one mention is enough
        (TEXT, {"direct": 3, "quasi": 2}),
    ],
)
def test_an_entity_is_masked_only_if_all_its_mentions_are(
    tmp_path: Path, rewrite: str, survived: dict[str, int]
) -> None:
    table = read(write(tmp_path, document({"annotator1": ONE, "annotator2": OTHER})))
    counted = leakage(identifiers(table), [rewrite], [0], 0.05).filter(pl.col("kind").is_in(["direct", "quasi"]))
    assert dict(counted.select("kind", "identifiers").iter_rows()) == {"direct": 3, "quasi": 2}
    assert dict(counted.select("kind", "survived").iter_rows()) == survived


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"dataset_type": "valid"}, ("EPS-D004", "document 1", "dataset_type")),
        ({"annotations": {"annotator1": {}}}, ("EPS-D004", "entity_mentions")),
        ({"annotations": {"a": {"entity_mentions": [ONE[0] | {"end_offset": 1000}]}}}, ("EPS-D004", "1000")),
        ({"annotations": {"a": {"entity_mentions": [ONE[0] | {"end_offset": 14}]}}}, ("EPS-D003", "document 1")),
        (
            {"annotations": {"a": {"entity_mentions": [ONE[0] | {"identifier_type": "MAYBE"}]}}},
            ("EPS-D004", "identifier_type"),
        ),
    ],
)
def test_other_forms_are_refused_without_quoting_the_text(
    tmp_path: Path, changes: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    with refused(*refusal) as caught:
        read(write(tmp_path, document({}, **changes)))
    assert "Leeds" not in str(caught.value)


def test_a_damaged_file_and_a_list_of_something_else(tmp_path: Path) -> None:
    path = write(tmp_path, "Leeds")
    with refused("EPS-D004", "1"):
        read(path)
    path.write_text("[{")
    with refused("EPS-D001"):
        read(path)
