"""The worst pair and the texts given away, which an average over pairs hides. Losses are in nats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.core.rounding import UP
from epsilometer.report.wording import inflected, unbounded

ALONE = "the average alone was bounded"


def worst(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the row with the worst pair, among rows `all` of `DECISIONS`; None if one of them has no pairs."""
    if not rows or any(row["worst_pair"] is None for row in rows):
        return None
    return max(rows, key=lambda row: (row["worst_pair"], row["texts_above_4"]))


def hidden(row: Mapping[str, Any] | None) -> str:
    """Return sentences on what the average of a cell hides."""
    if row is None or row["worst_pair"] is None:
        return f"{ALONE[:1].upper()}{ALONE[1:]}."
    above = row["texts_above_4"]
    pairs = f"{row['pairs_compared']:,} of {row['pairs_there']:,} pairs"
    most = unbounded(row["largest"], UP) if row["largest"] is not None else None
    return (
        f"The worst pair compared loses {unbounded(row['worst_pair'], UP)} nats on average over its outputs. "
        f"{above:,} of {row['texts_compared']:,} texts {inflected(above, 'loses', 'lose')} more than 4 nats to a text "
        f"compared with {inflected(above, 'it', 'them')} ({pairs} compared)."
        f"{'' if most is None else f' No output of any pair loses more than {most} nats.'}"
    )


def briefly(row: Mapping[str, Any] | None) -> str:
    """Return the same in a few words: `worst pair 1.75, above 4 nats 0 of 412 texts`."""
    if row is None or row["worst_pair"] is None:
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
