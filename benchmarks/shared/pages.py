"""The head of a page in docs/results that a benchmark writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from epsilometer.report import origin
from epsilometer.runtime.machine import hardware

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"


def head(title: str, command: str, about: str) -> list[str]:
    """Lines: the title, what wrote the page, and when, from which commit and on what hardware.

    command: of `python -m benchmarks.`, with what the page needs; about: what was measured, in whole sentences.
    """
    return [
        f"# {title}",
        "",
        f"Written by `python -m benchmarks.{command}`; do not edit. What it shows is in its docstring.",
        "",
        f"{dated()} {about}",
    ]


def dated() -> str:
    """When, from which commit, on what hardware."""
    return f"{datetime.now(UTC):%Y-%m-%d}, {origin.facts(ROOT)['brief']}, {hardware()}."


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ").strip() or "(empty)"


def table(heading: str, said: str, head: str, rows: Iterable[str]) -> Iterator[str]:
    """The lines of a heading, a sentence, which may be empty, and a table."""
    yield from ("", f"## {heading}", "", *([said, ""] if said else []), head, "|---" * (head.count("|") - 1) + "|")
    yield from rows
