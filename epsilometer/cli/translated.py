"""Commands and options of earlier versions, which are translated before a command's options are read.

They are no longer in the help. `gate --max-loss 1` is `gate --limit which_text=1`, `audit --units` is `ask which_unit`,
and `calibrate --training sent` is `calibrate-training --training sent`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Words = list[str]


@dataclass(frozen=True)
class Old:
    """An option of an earlier version.

    question: the question that it is about. words: returns the new words for its value. flag: it takes no value.
    """

    question: str
    words: Callable[[str], Words]
    flag: bool = False


def _limit(question: str) -> Old:
    return Old(question, lambda value: ["--limit", f"{question}={value}"])


def _setting(question: str, key: str) -> Old:
    """A text, quoted as YAML reads it."""
    return Old(question, lambda value: ["--with", f"{question}.{key}={json.dumps(value)}"])


def _plain(question: str, key: str) -> Old:
    """A number."""
    return Old(question, lambda value: ["--with", f"{question}.{key}={value}"])


def _listed(question: str, key: str) -> Old:
    """Names that commas separate; `all` names none."""

    def words(value: str) -> Words:
        names = [name.strip() for name in value.split(",")]
        return [] if value == "all" else ["--with", f"{question}.{key}={json.dumps(names)}"]

    return Old(question, words)


_SETTINGS = {
    "--identifiers": _listed("identifiers", "kinds"),
    "--attribute": _setting("attribute", "attribute"),
    "--group": _setting("attribute", "group"),
    "--kinds": _listed("attribute", "kinds"),
    "--facts": _setting("linking", "facts"),
    "--author": _setting("linking", "author"),
    "--among": _plain("linking", "among"),
    "--linkers": _listed("linking", "attacks"),
}
_OF_GATE = _SETTINGS | {
    "--count-partly": Old("identifiers", lambda _: ["--with", "identifiers.partly=true"], flag=True),
    "--max-loss": _limit("which_text"),
    "--max-delta-at-4": _limit("tail"),
    "--max-identifiers": _limit("identifiers"),
    "--max-attribute-loss": _limit("attribute"),
    "--max-linking-loss": _limit("linking"),
}
_OF_AUDIT = _SETTINGS | {
    "--units": Old("which_unit", lambda _: [], flag=True),
    "--worst": Old("worst_pair", lambda _: [], flag=True),
    "--keep": _setting("attribute", "keep"),
    "--labelled": _setting("attribute", "labelled"),
}
_PROBE = "--probe-failures"
_EMPTY = re.compile(r"(--[\w-]+=)?")


def is_empty(word: str) -> bool:
    """Return True for an empty word, and for an option with an empty value."""
    return _EMPTY.fullmatch(word) is not None


def translated(words: Sequence[str]) -> Words:
    """Return a call, from the command's name on, in today's words; a call with an empty word as it is."""
    command, *rest = words
    if any(map(is_empty, rest)):
        return list(words)
    if command == "mechanisms":
        return ["list", *rest]
    if command == "gate":
        return [command, *_options(rest, _OF_GATE)]
    if command == "calibrate" and any(word.partition("=")[0] == "--training" for word in rest):
        return ["calibrate-training", *rest]
    if command == "audit" and _PROBE in rest:
        return ["probe", *(word for word in rest if word != _PROBE)]
    if command == "audit":
        questions = (_OF_AUDIT[name].question for word in rest if (name := word.partition("=")[0]) in _OF_AUDIT)
        if (question := next(questions, None)) is not None:
            other_flags = {name for name, old in _OF_AUDIT.items() if old.flag and old.question != question}
            options = {name: old for name, old in _OF_AUDIT.items() if name not in other_flags}
            return ["ask", question, *_options(rest, options)]  # which has no option of another question's flag
    return list(words)


def _options(words: Sequence[str], options: Mapping[str, Old]) -> Words:
    rest = iter(words)
    return [new for word in rest for new in _new(word, rest, options)]


def _new(word: str, rest: Iterator[str], options: Mapping[str, Old]) -> Words:
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
