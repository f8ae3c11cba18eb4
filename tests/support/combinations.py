"""The combinations of questions and ways to ask: all that a question's evidence allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsilometer.auditing.question import Gives, Need
from epsilometer.core.component import QUESTIONS, find, names

DOORS: Mapping[str, frozenset[Gives]] = {
    "ask": frozenset({Gives.LOW}),
    "gate": frozenset({Gives.LOW}),
    "pytest": frozenset({Gives.LOW}),
    "decide": frozenset({Gives.LOW}),
    "calibrate": frozenset({Gives.LOW, Gives.HIGH}),
    "compare": frozenset({Gives.OUTCOMES}),
    "reaudit": frozenset({Gives.OUTCOMES}),
}
"""Each way to ask, and what it takes of a question's evidence."""

FIXED = (Need.CLAIM,)  # a figure of 0 or 1 that no budget meets in between


def opens(question: Any, door: str) -> bool:
    """Return True if a question, by its class or an object, can be asked in this way."""
    fixed = door == "calibrate" and any(need in question.needs for need in FIXED)
    return DOORS[door] <= question.gives and not fixed


def table() -> str:
    """Return the table of questions and ways to ask, as Markdown."""
    heads = ["question", *DOORS]
    rows = [
        [name, *("yes" if opens(find(QUESTIONS, name, "observe"), door) else "–" for door in DOORS)]
        for name in names(QUESTIONS)
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
