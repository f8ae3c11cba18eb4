"""Figures that an average over pairs hides: the worst pair, and texts that are easily recognised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.rounding import NEAREST, UP
from epsilometer.report.wording import guesses, in_guesses, inflected, unbounded

SURELY = guesses(4.0, NEAREST)  # right guesses of 100 at 4 nats
ALONE = "the average alone was bounded"


def worst(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the row with the worst pair; None if any compares no pairs. rows: rows of `DECISIONS` with limit `all`."""
    if not rows or any(row["worst_pair"] is None for row in rows):
        return None
    return max(rows, key=lambda row: (row["worst_pair"], row["texts_above_4"]))


def hidden(row: Mapping[str, Any] | None) -> str:
    """Return sentences on what the average of a cell hides."""
    if row is None or row["worst_pair"] is None:
        return f"{ALONE[:1].upper()}{ALONE[1:]}."
    above = row["texts_above_4"]
    pairs = f"{row['pairs_compared']:,} of {row['pairs_there']:,} pairs"
    most = "" if row["largest"] is None else f" No output gives more than {in_guesses(row['largest'])}."
    return (
        f"In the worst pair compared, an attacker is right in {in_guesses(row['worst_pair'])}. {above:,} of "
        f"{row['texts_compared']:,} texts {inflected(above, 'is', 'are')} told apart from another text in more than "
        f"{SURELY:g} of 100 guesses (4 nats; {pairs} compared).{most}"
    )


def briefly(row: Mapping[str, Any] | None) -> str:
    """Describe the worst pair in a few words: `worst pair 85.2 of 100, 0 of 412 texts above 98.2`."""
    if row is None or row["worst_pair"] is None:
        return ALONE
    above = f"{row['texts_above_4']:,} of {row['texts_compared']:,} texts above {SURELY:g}"
    return f"worst pair {guesses(row['worst_pair']):g} of 100, {above}"


def columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the worst pair, and the counts of texts and pairs, as cells of a table."""
    if row["worst_pair"] is None:
        return {"worst pair": ALONE}
    return {
        "worst pair": f"{guesses(row['worst_pair']):g} of 100 ({unbounded(row['worst_pair'], UP)} nats)",
        "texts above 4 nats": f"{row['texts_above_4']:,} of {row['texts_compared']:,}",
        "pairs compared": f"{row['pairs_compared']:,} of {row['pairs_there']:,}",
    }
