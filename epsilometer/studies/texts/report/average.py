"""The worst pair and the texts that are given away, which an average over pairs hides. Losses are in nats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.rounding import UP
from epsilometer.report.wording import inflected, unbounded

ALONE = "the average alone was bounded"


def hidden(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the cells of these rows `all` of `DECISIONS`: that of the cell with the worst pair."""
    if not rows or any(row["worst_pair"] is None for row in rows):
        return f"{ALONE[:1].upper()}{ALONE[1:]}."
    row = max(rows, key=lambda row: (row["worst_pair"], row["texts_above_4"]))
    above = row["texts_above_4"]
    pairs = f"{row['pairs_compared']:,} of {row['pairs_there']:,} pairs"
    largest = (
        ""
        if row["largest"] is None
        else f" No output of any pair loses more than {unbounded(row['largest'], UP)} nats."
    )
    return (
        f"The worst pair compared loses {unbounded(row['worst_pair'], UP)} nats on average over its outputs. "
        f"{above:,} of {row['texts_compared']:,} texts {inflected(above, 'loses', 'lose')} more than 4 nats to a text "
        f"compared with {inflected(above, 'it', 'them')} ({pairs} compared).{largest}"
    )


def briefly(row: Mapping[str, Any]) -> str:
    """Return the same of one cell in a few words: `worst pair 1.75, above 4 nats 0 of 412 texts`."""
    if row["worst_pair"] is None:
        return ALONE
    above = f"{row['texts_above_4']:,} of {row['texts_compared']:,} texts"
    return f"worst pair {unbounded(row['worst_pair'], UP)}, above 4 nats {above}"


def columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the same as cells of a table."""
    if row["worst_pair"] is None:
        return {"worst pair": ALONE}
    return {
        "worst pair": unbounded(row["worst_pair"], UP),
        "texts above 4 nats": f"{row['texts_above_4']:,} of {row['texts_compared']:,}",
        "pairs compared": f"{row['pairs_compared']:,} of {row['pairs_there']:,}",
    }
