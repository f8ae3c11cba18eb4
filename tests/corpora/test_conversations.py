"""Conversations: messages are in a fixed order, and people are replaced by numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epsilometer.corpora import conversations
from epsilometer.corpora.reading import read
from tests.support.refusals import refused

Message = tuple[str, str, str]


def conversation(*turns: list[Message], **more: Any) -> dict[str, Any]:
    keys = ("timestamp", "sender", "text")
    messages = [[dict(zip(keys, message, strict=True)) for message in turn] for turn in turns]
    return {"messages": messages, "start": "2018", **more}


TALK = {
    "b": conversation(
        [("2018-05-02", "ann", "hello"), ("2018-05-01", "ann", "earlier")], [("2018-05-03", "bob", "hi")]
    ),
    "a": conversation([("2018-06-01", "cyd", "first by name")], prompt="What is new?"),
}


def write(folder: Path, content: Any) -> Path:
    path = folder / "talk.json"
    path.write_text(json.dumps(content))
    return path


def test_rows_are_in_the_order_of_conversations_and_time_and_senders_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, TALK)
    assert conversations.holds(path)
    assert conversations.read(path).rows() == [
        ("first by name", "1", "1", "2018-06-01", "What is new?"),
        ("earlier", "2", "2", "2018-05-01", None),
        ("hello", "2", "2", "2018-05-02", None),
        ("hi", "3", "2", "2018-05-03", None),
    ]
    turned = write(tmp_path, dict(reversed(TALK.items())))
    assert conversations.read(turned).equals(conversations.read(path))


def test_they_are_read_as_any_source(tmp_path: Path) -> None:
    table = read(write(tmp_path, TALK), labels=["author"])
    assert table.columns == ["text", "split", "author"]
    assert table["author"].to_list() == ["1", "2", "2", "3"]


@pytest.mark.parametrize(
    "content",
    [
        {"a": conversation([("2018", "ann", "private words")]), "b": {"messages": [[{"text": "private words"}]]}},
        {"a": conversation([("2018", "ann", "private words")]), "b": ["private words"]},
        {"a": conversation([("2018", "ann", "private words")]), "b": conversation([("2018", "ann", 5)])},  # type: ignore[list-item]
        {
            "a": conversation([("2018", "ann", "x")]),
            "b": conversation([("2018", "ann", "x")], prompt=["private words"]),
        },
    ],
)
def test_another_form_is_named_by_its_number_and_not_quoted(content: Any, tmp_path: Path) -> None:
    with refused("EPS-D009", "2") as error:
        conversations.read(write(tmp_path, content))
    assert "private" not in str(error.value)


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({"a": conversation([("2018", "ann", "\ud800")])}))
    with refused("EPS-D008", "1"):
        conversations.read(path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, TALK)
    path.write_text(path.read_text()[:-1])
    with refused("EPS-D007"):
        conversations.read(path)


@pytest.mark.parametrize(
    "content", [{"dataset": "a/b", "revision": "0" * 40}, {"package": {"name": "a"}}, [{"full_text": "x"}], {"a": 5}]
)
def test_other_json_is_no_conversation(content: Any, tmp_path: Path) -> None:
    assert not conversations.holds(write(tmp_path, content))
