"""The answers to the questions of params.yaml: figures with their bounds, and the statuses of limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.status import Status, heaviest
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.pipeline.answers import ASKED
from epsilometer.pipeline.question_params import QuestionParams, recorded_path
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table
from epsilometer.report.wording import budget, confidence

Row = Mapping[str, Any]


def section(results: Results[QuestionParams]) -> Section | None:
    """Return tables of the deciding figures, and of all figures of each question; None without questions."""
    names = [*results.params.questions]
    if not names:
        return None
    every = {name: results.table(recorded_path(name), ASKED).to_dicts() for name in names}
    short = [_shown(name, row) for name, rows in every.items() for row in deciding(rows)]
    caption = (
        f"The deciding figure of each question, with bounds at {confidence(results.params.audit.alpha, 2)}. "
        "The error probability of a status is shared among the figures of its question."
    )
    limited = {name: rows for name, rows in every.items() if results.params.questions[name].limit is not None}
    return Section(
        id="questions",
        link="Questions",
        heading="What other questions show",
        blocks=[Table("Questions", caption, short), *_whole(results.params, every)],
        first_screen=[("Questions", sentence(limited))] if limited else [],
    )


def sentence(every: Mapping[str, Sequence[Row]]) -> str:
    """Return the number of limits with each status, and the exceeded limits. every: rows by question."""
    at = [(name, row) for name, rows in every.items() for row in rows if row["figure"] == ALL]
    counts = Counter(row["status"] for _, row in at)
    said = ", ".join(f"{counts[status]} {status}" for status in Status if status in counts)
    beyond = [name + _at(row["epsilon"]) for name, row in at if row["status"] == Status.BEYOND]
    return f"Limits: {said}." + (f" Beyond: {', '.join(beyond)}." if beyond else "")


def deciding(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the deciding row of each budget, with the status of all figures together.

    Without a limit, the row of the worst figure is yielded.
    """
    by_budget: dict[float | None, list[Row]] = {}
    for row in rows:
        by_budget.setdefault(row["epsilon"], []).append(row)
    for here in by_budget.values():
        figures = [row for row in here if row["figure"] != ALL]
        whole = [row["status"] for row in here if row["figure"] == ALL]
        figures = [row for row in figures if not row["figure"].startswith(STRONGEST)]
        end = "low"
        if whole:
            word = heaviest(Status(row["status"]) for row in figures if row["status"])
            figures = [row for row in figures if row["status"] == word]
            end = "high" if word.passes else "low"
        if figures[0]["at_least"]:
            row = min(figures, key=lambda row: row["low"])
        else:
            row = max(figures, key=lambda row: row[end])
        yield {**row, "status": whole[0] if whole else None}


def _whole(params: QuestionParams, every: Mapping[str, Sequence[Row]]) -> Iterator[Table]:
    """Yield a folded table of all figures of each question."""
    for name, rows in every.items():
        entry = params.questions[name]
        shown = [
            {key: value for key, value in _shown(name, row).items() if key != "name"} | {"covers": row["covers"]}
            for row in rows
            if row["figure"] != ALL
        ]
        about = f"{entry.question} of {entry.mechanism} on {entry.dataset}"
        caption = f"All figures of {about}. An upper bound covers every adversary, or only these attacks."
        yield Table(f"Figures of {name}", caption, shown, folded=True)


def _shown(name: str, row: Row) -> dict[str, str]:
    limited = row["limit"] is not None
    sign = "≥" if row["at_least"] else "≤"
    needed = f" (needs {row['needed']:,} trials)" if row["needed"] else ""
    return {
        "status": f"{row['status']}{needed}" if row["status"] else NONE,
        "limit": f"{sign} {_number(row['limit'])}" if limited else NONE,
        "name": name,
        "epsilon": NONE if row["epsilon"] is None else budget(row["epsilon"]),
        "figure": row["figure"],
        "bounds": f"{_number(row['low'])} to {_number(row['high'])}",
        "trials": f"{row['trials']:,}",
    }


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _at(epsilon: float | None) -> str:
    return "" if epsilon is None else f" at ε {budget(epsilon)}"
