"""Options of earlier versions, which are translated before a command's options are read.

They are no longer in the help. `--max-loss 1` is `--limit which_text=1`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Words = list[str]


def _limit(question: str) -> Callable[[str], Words]:
    return lambda value: ["--limit", f"{question}={value}"]


def _setting(question: str, key: str) -> Callable[[str], Words]:
    """A text, quoted as YAML reads it."""
    return lambda value: ["--with", f"{question}.{key}={json.dumps(value)}"]


def _plain(question: str, key: str) -> Callable[[str], Words]:
    """A number, or true."""
    return lambda value: ["--with", f"{question}.{key}={value}"]


def _listed(question: str, key: str) -> Callable[[str], Words]:
    """Names that commas separate; `all` names none."""

    def words(value: str) -> Words:
        names = [name.strip() for name in value.split(",")]
        return [] if value == "all" else ["--with", f"{question}.{key}={json.dumps(names)}"]

    return words


@dataclass(frozen=True)
class Old:
    """An option of an earlier version. flag: whether it takes no value."""

    words: Callable[[str], Words]
    flag: bool = False


SETTINGS = {
    "--identifiers": Old(_listed("identifiers", "kinds")),
    "--count-partly": Old(lambda _: ["--with", "identifiers.partly=true"], flag=True),
    "--attribute": Old(_setting("attribute", "attribute")),
    "--group": Old(_setting("attribute", "group")),
    "--kinds": Old(_listed("attribute", "kinds")),
    "--facts": Old(_setting("linking", "facts")),
    "--author": Old(_setting("linking", "author")),
    "--among": Old(_plain("linking", "among")),
    "--linkers": Old(_listed("linking", "attacks")),
}
OF_GATE = SETTINGS | {
    "--max-loss": Old(_limit("which_text")),
    "--max-delta-at-4": Old(_limit("tail")),
    "--max-identifiers": Old(_limit("identifiers")),
    "--max-attribute-loss": Old(_limit("attribute")),
    "--max-linking-loss": Old(_limit("linking")),
}


def translated(words: Sequence[str], options: dict[str, Old]) -> Words:
    """Return the words of a command with the old options in new words."""
    rest = iter(words)
    return [new for word in rest for new in _new(word, rest, options)]


def _new(word: str, rest: Iterator[str], options: dict[str, Old]) -> Words:
    name, equals, value = word.partition("=")
    old = options.get(name)
    if old is None:
        return [word]
    if old.flag:
        return old.words("")
    if not equals:
        if (following := next(rest, None)) is None:
            return [word]
        value = following
    return old.words(value)
