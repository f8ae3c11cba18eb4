"""Concurrent searches in many texts, so that their questions to networks are answered in large batches.

A search is a generator. It yields items with an asker (a function that answers many items), and receives the answers.
In each round all running searches submit their items; then each asker is called once, with the distinct items of all
searches. An answer depends only on its item, and a search only on its answers and its random stream. So results do not
depend on the number of concurrent searches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Asker = Callable[[Sequence[Any]], Sequence[Any]]  # n distinct items -> n answers
Search = Generator[tuple[Asker, Sequence[Hashable]], list[Any], T]

SIDE_BY_SIDE = 64  # most concurrent searches, which limits memory


def in_step(searches: Iterable[Search[T]], side_by_side: int = SIDE_BY_SIDE) -> list[T]:
    """Run searches concurrently; return their results in order. side_by_side: most searches that run at a time."""
    waiting = enumerate(searches)
    results: dict[int, T] = {}
    running: dict[int, Search[T]] = {}
    wanted: dict[int, tuple[Asker, Sequence[Hashable]]] = {}

    def advance(number: int, search: Search[T], answers: list[Any] | None) -> None:
        try:
            wanted[number] = next(search) if answers is None else search.send(answers)
            running[number] = search
        except StopIteration as end:
            running.pop(number, None)
            results[number] = end.value

    while True:
        while len(running) < side_by_side and (new := next(waiting, None)) is not None:
            advance(*new, answers=None)
        if not running:
            return [results[number] for number in range(len(results))]
        answers = _answers([wanted[number] for number in running])
        for (number, search), answer in zip([*running.items()], answers, strict=True):
            advance(number, search, answer)


def ask(asker: Asker, items: Sequence[Hashable], at_once: int) -> Search[list[Any]]:
    """Return the answers to these items, submitted in groups of `at_once`."""
    answers: list[Any] = []
    for start in range(0, len(items), at_once):
        answers += yield asker, items[start : start + at_once]
    return answers


def _answers(wanted: Sequence[tuple[Asker, Sequence[Hashable]]]) -> list[list[Any]]:
    """Return the answers to each request. Each asker is called once, with distinct items."""
    distinct: dict[Asker, dict[Hashable, None]] = {}
    for asker, items in wanted:
        distinct.setdefault(asker, {}).update(dict.fromkeys(items))
    answer = {asker: dict(zip(items, asker([*items]), strict=True)) for asker, items in distinct.items()}
    return [[answer[asker][item] for item in items] for asker, items in wanted]
