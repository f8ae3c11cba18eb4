"""Conversations in the form of chitchat-dataset: messages between people, one message per row.

A file is a JSON object that maps names to conversations (Myers, Etchart and Fulda 2020). A conversation has `messages`,
a list of lists. Each inner list has consecutive messages of one sender. `prompt`, the opening question, is optional. A
message has `text`, `timestamp` and `sender`. Rows are in a fixed order: by the name of the conversation, then by time.
Numbers replace senders and conversations, in the order of their first rows, so that no account name leaves the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.core import json_text
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema

SCHEMA: Schema = {
    "text": pl.String,
    "author": pl.String,
    "conversation": pl.String,
    "time": pl.String,
    "question": pl.String,
}

_HEAD = 1 << 12  # bytes that show the form of a file
_BEGINS = re.compile(rb'\s*\{\s*"[^"\\]*"\s*:\s*\{\s*"(messages|prompt|ratings|start)"\s*:')


def holds(path: Path) -> bool:
    """Return True if a .json file begins with an object of conversations."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return _BEGINS.match(file.read(_HEAD)) is not None


def read(path: Path) -> pl.DataFrame:
    """Return the messages of a file, with the columns of `SCHEMA`.

    Raises UserError for a damaged file, and for a conversation in another form. No error quotes a message or a sender.
    """
    try:
        conversations = json_text.load(path.read_bytes())
    except ValueError as error:  # neither JSON nor UTF-8
        raise UserError(f"{path} is damaged ({type(error).__name__}); fetch it again", "EPS-D007") from None
    rows: list[tuple[str, str, str, str, str | None]] = []
    authors: dict[str, str] = {}
    for number, name in enumerate(sorted(conversations), 1):
        conversation = conversations[name]
        if (wrong := json_text.no_text(conversation)) is not None:
            raise UserError(
                f"{path}: conversation {number} in the order of names contains {wrong}; remove the character, or "
                "write it whole",
                "EPS-D008",
            )
        try:
            question = _string(conversation.get("prompt") or "") or None
            for time, sender, text in sorted(_messages(conversation), key=lambda message: message[0]):
                author = authors.setdefault(sender, str(len(authors) + 1))
                rows.append((text, author, str(number), time, question))
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: conversation {number} in the order of names is not in the form of chitchat-dataset "
                f"(messages, lists of text, timestamp and sender): {type(error).__name__}; for a list of records use "
                ".jsonl",
                "EPS-D009",
            ) from None
    return pl.DataFrame(rows, schema=dict(SCHEMA), orient="row")


def _messages(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the time, the sender and the text of each message."""
    for turn in conversation["messages"]:
        for message in turn:
            yield _string(message["timestamp"]), _string(message["sender"]), _string(message["text"])


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("timestamp, sender, text and prompt must be strings")
    return value
