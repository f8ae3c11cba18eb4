"""Three ways to share texts for learning: public texts alone, rewrites, or a whole released corpus.

Figures are from stage `ways`, for data sets with a label to learn and public texts. Without such a data set, the
section only states what each way protects, and its command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.decisions.limits import LOSS
from epsilometer.auditing.evidence.status import Status
from epsilometer.cells.tables import WAYS, ways_path
from epsilometer.core.rounding import DOWN, UP, rounded
from epsilometer.report.cells.first_screen import decisions
from epsilometer.report.cells.results import TextResults
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table, records
from epsilometer.report.wording import at_budget, budget, guesses

TITLE = "Three ways"
_REWRITE, _RELEASE = "epsilometer rewrite", "epsilometer release"
_PROTECTED = {
    "public": ("everybody, because no private text is read", "none: collect and label them"),
    "rewrites": ("each text, also from the curator; labels are not protected", _REWRITE),
    "release": ("each person's text and label; the curator sees all texts", _RELEASE),
}
_NAMES = {"public": "public texts alone", "rewrites": "one text at a time", "release": "the whole corpus"}
_LIMITS = {Status.WITHIN: "within the limits", Status.BEYOND: "beyond a limit"}
_WITHOUT_FIGURES = (
    f"Public texts alone protect everybody. `{_REWRITE}` changes each text, and nobody else needs to see it. "
    f"`{_RELEASE}` "
    "adds noise once, to statistics of all texts together, and you must be trusted with the texts."
)
_CAPTION = (
    "Macro F1 of one learner: the mean over five held-out folds, each with its own exemplars and noise. The 99 % "
    "interval is for the expected F1 on as many new texts, with new exemplars and noise and the same public texts. "
    "Right guesses are between two texts; 50 is chance. For a release they are exact, for texts that vote for "
    "different cells."
)


def section(results: TextResults) -> Section | None:
    """Return a table per data set with figures; None for an audit by an older version, which lacks `ways.parquet`."""
    if not results.has(ways_path()):
        return None
    table = results.table(ways_path(), WAYS)
    if table.is_empty():
        return Section(
            "ways", "Ways", "Three ways to share", [_WITHOUT_FIGURES], first_screen=[(TITLE, _WITHOUT_FIGURES)]
        )
    decided = decisions(results)
    first, blocks = list[tuple[str, str]](), list[Table]()
    for (dataset,), part in table.group_by("dataset", maintain_order=True):
        rows = [row | _standing(row, decided, results.params.decide.loss) for row in part.to_dicts()]
        first += [(f"{TITLE}: {dataset}", said) for said in sentences(rows)]
        blocks.append(_table(str(dataset), rows))
    return Section("ways", "Ways", "Three ways to share", blocks=blocks, first_screen=first)


def sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each way: its F1 and its command. rows: a data set's rows, with `guesses` and `limits`.

    The rewrites shown have the best F1 on separate texts, among those within the limits if there are any.
    """
    public = next(row for row in rows if row["way"] == "public")
    release = next(row for row in rows if row["way"] == "release")
    rewritten = [row for row in rows if row["way"] == "rewrites"]
    said = [f"**Public texts alone:** F1 {_f1(public)} ({public['label']}) from {public['texts']} labelled by hand."]
    if rewritten:
        best = max(rewritten, key=lambda row: (row["limits"] == Status.WITHIN, row["choice"]))
        limits = _LIMITS.get(best["limits"], "limits not shown to be kept")
        by = at_budget(best["mechanism"], best["epsilon"])
        said.append(f"**One text at a time** (`{_REWRITE}`): {_f1(best)} with {by}, {limits}.")
    said.append(
        f"**The whole corpus** (`{_RELEASE}`, you see all texts): {_f1(release)} at ε = "
        f"{budget(release['epsilon'])}, at most {guesses(release['loss'], UP):g} of 100 guesses."
    )
    return said


def _f1(row: Mapping[str, Any], digits: int = 2) -> str:
    return f"{np.mean(row['f1']):.{digits}f} ± {rounded(row['reach'], digits, UP):.{digits}f}"


def _standing(row: Mapping[str, Any], decided: pl.DataFrame, allowed: float) -> dict[str, Any]:
    """Return the right guesses of 100 at a row's loss, and the status of the limits.

    allowed: the limit on the loss. A release with an epsilon below 4 has only this limit: its delta at 4 nats is 0, and
    a release contains no private text.
    """
    if row["way"] == "public":
        return {"guesses": "50", "limits": Status.WITHIN}
    if row["way"] == "release":
        status = Status.WITHIN if row["loss"] <= allowed else Status.BEYOND
        return {"guesses": f"{guesses(row['loss'], UP):g}", "limits": status}
    of = decided.filter(
        pl.col("epsilon").eq_missing(row["epsilon"]), dataset=row["dataset"], mechanism=row["mechanism"]
    )
    every, loss = of.filter(limit=ALL).to_dicts(), of.filter(limit=LOSS).to_dicts()
    shown = NONE
    if loss and loss[0]["low"] is not None:
        shown = f"at least {guesses(loss[0]['low'], DOWN):g}"
    if loss and loss[0]["high"] is not None:
        shown = f"at most {guesses(loss[0]['high'], UP):g}"
    return {"guesses": shown, "limits": every[0]["decision"] if every else NONE}


def _table(dataset: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = []
    for row in rows:
        protects, command = _PROTECTED[row["way"]]
        name = _NAMES[row["way"]]
        if row["epsilon"] is not None or row["mechanism"] is not None:
            name += f", {at_budget(row['mechanism'] or 'vote_histogram', row['epsilon'])}"
        shown.append({**row, "f1": _f1(row, 3), "name": name, "protects": protects, "command": command})
    columns = (
        "way: {name} | F1: {f1} | texts: {texts:,} | right guesses of 100: {guesses} | limits: {limits} | "
        "protects: {protects} | command: {command}"
    )
    return Table(f"Three ways to share {dataset} ({rows[0]['label']})", _CAPTION, records(shown, columns))
