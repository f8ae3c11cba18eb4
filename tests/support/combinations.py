"""The allowed combinations of questions and ways to ask, according to the evidence that a question gives."""

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
"""Each way to ask, and the kinds of evidence that it needs."""

FIXED = (Need.CLAIM,)  # figures that are 0 or 1, so no budget can be calibrated to a value in between


def opens(question: Any, door: str) -> bool:
    """Return whether a question (its class or an object) can be asked in this way."""
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
