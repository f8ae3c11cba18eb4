"""The table of F1 learnt from whole corpora, which a trusted curator releases, compared with local releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epsilometer.report.results import Results
from epsilometer.report.table import NONE, Table
from epsilometer.report.wording import as_number, budget
from epsilometer.studies.leaderboard.params import LeaderboardParams
from epsilometer.studies.leaderboard.report.rows import in_common, interval
from epsilometer.studies.leaderboard.tables import CORPORA, SIZES, corpora_path

_CAPTION = (
    "Macro F1 of a head on clean texts. The whole corpus: a curator sees all texts and adds noise once. These rows "
    "are not ranked with local rows, which protect people from the curator, too. One text at a time: mechanisms "
    "that choose among the same public texts, with labels in the clear. Post-processed: in both kinds of rows, the "
    "same smoothing gives every public text a label. Chosen for: the target by which the budget was chosen, either "
    "an average loss between texts of equal length or a pure epsilon."
)


def table(results: Results[LeaderboardParams], dataset: str) -> Table | None:
    """Return the table of a data set, or None if its stage has not run."""
    if not results.has(corpora_path(dataset)):
        return None
    rows = results.table(corpora_path(dataset), CORPORA).sort("texts", maintain_order=True).to_dicts()
    fewest = min((row["texts"] for row in rows), default=0)
    shown = [_row(row, size=0 if row["texts"] == fewest else len(SIZES) - 1) for row in rows]
    return Table(f"Whole corpora on {dataset}", _CAPTION, shown, folded=True)


def _row(row: Mapping[str, Any], size: int) -> dict[str, str]:
    chosen = NONE if not row["whole"] else "pure epsilon" if row["loss"] is None else f"{row['loss']:g} nats"
    name = "the whole corpus" if row["whole"] else f"one text at a time, {row['mechanism']}"
    return {
        "released": f"{name} ({row['texts']:,} texts)",
        "chosen for": chosen,
        "pure epsilon": budget(row["epsilon"]),
        "average loss": as_number(row["average"]),
        "post-processed": interval(row["spread"], shared=in_common(size)),
        "as released": interval(row["plain"], shared=in_common(size)),
    }
