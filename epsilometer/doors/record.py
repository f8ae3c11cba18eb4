"""The record of a question in a project: its figures, their outcomes, and the status of a limit.

Each budget is observed once, so figures and statuses come from the same trials. Figures have the bounds that `ask`
gives, and the statuses that `decide` gives. The error probabilities of statuses hold for all figures of a question
together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits, Means
from epsilometer.auditing.evidence.limit import Scale
from epsilometer.auditing.evidence.status import heaviest
from epsilometer.auditing.limits.accepted import chosen_settings
from epsilometer.auditing.question import Gives, Observed, Question, check
from epsilometer.auditing.subject import Subject
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.tables import Schema
from epsilometer.doors.ask import ANSWERS, answers, say_answers
from epsilometer.doors.decide import in_sequence, shown_by_law, statuses
from epsilometer.reaudit.hashes import DIGITS

RECORD: Schema = {
    **ANSWERS,  # with a limit, the last row of a budget has the figure `all`
    "limit": pl.Float64,  # null without a limit, and for figures that are not limited
    "at_least": pl.Boolean,  # True if the limit is the smallest value allowed
    "status": pl.String,  # status of the limit (`evidence.status.Status`)
    "needed": pl.Int64,  # number of trials that could show that an open limit is kept
    "outcomes": pl.List(pl.Float64),  # one per trial, in [0, 1]; empty if the question has none
    "drawn": pl.String,  # a hash of everything that determines the trials
    "data": pl.String,  # kind of the evidence: "Hits" or "Means" (`evidence.Data`)
    "scale": pl.String,  # `evidence.limit.Scale` as JSON
}
_ANY = 0.5  # a limit in the range of every figure: shares, probabilities and nats


def record(
    question: Question,
    of: Subject,
    epsilons: Sequence[float] | None = None,
    trials: int | None = None,
    allowed: float | None = None,
) -> pl.DataFrame:
    """Observe a question once at each budget; return a row per budget and figure, schema RECORD.

    epsilons, trials: as in `ask`. allowed: a limit on every figure. With a limit, the last row of a budget has the
    status of all figures together. If a budget does not pass, no larger budget passes. Raises UserError if the subject
    lacks what the question needs.
    """
    check(question, of)
    count = question.usual if trials is None else trials
    subjects = [of] if epsilons is None else [of.at(epsilon) for epsilon in sorted(epsilons)]
    by_budget = [_rows(question, subject, count, allowed) for subject in subjects]
    if allowed is not None:
        words = in_sequence([heaviest(row["status"] for row in rows if row.get("status")) for rows in by_budget])
        for subject, rows, word in zip(subjects, by_budget, words, strict=True):
            rows.append({"epsilon": stored(subject.epsilon), "figure": ALL, "limit": allowed, "status": word})
    return pl.DataFrame([row for rows in by_budget for row in rows], schema=dict(RECORD), orient="row")


def observed_in(row: Mapping[str, Any]) -> Observed:
    """Restore the evidence of a row with outcomes. The row's hash of the trials replaces their texts.

    Raises UserError if the evidence cannot be restored from the outcomes alone.
    """
    values, scale = np.array(row["outcomes"]), Scale(**json.loads(row["scale"]))
    data: Hits | Means
    if row["data"] == Hits.__name__:
        data = Hits(int(values.sum()), len(values))
    elif row["data"] == Means.__name__:
        data = Means(values.tolist(), row["trials"] // len(values))
    else:
        raise UserError(
            f"the figure {row['figure']} cannot be restored from its stored outcomes; compare the mechanisms on a FILE "
            "of texts",
            "EPS-Q022",
        )
    evidence = Evidence(row["figure"], By(row["by"]), scale, data, covers=Covers(row["covers"]))
    return Observed(evidence, values, [(row["drawn"], True)])


def _rows(question: Question, of: Subject, count: int, allowed: float | None) -> list[dict[str, Any]]:
    """Return the rows of one budget."""
    observed = list(question.observe(of, count))
    limited = allowed is not None or Gives.OUTCOMES in question.gives
    limit = question.limit(of, _ANY if allowed is None else allowed) if limited else None
    decided = {}
    if allowed is not None and limit is not None:
        law = shown_by_law(question, limit, of, count)
        decided = {each.evidence.of: each for each in statuses(question, limit, of, observed if law is None else [law])}
        observed += [law] if law is not None else []
    say_answers(of)
    rows = []
    for row, each in zip_longest(answers(observed, of.epsilon, of.design.alpha), observed):
        row |= {"at_least": limit is not None and limit.at_least, "outcomes": []}
        if each is not None:  # the row `strongest` has no outcomes
            evidence = each.evidence
            row |= {"outcomes": each.values.tolist(), "drawn": _trials_hash(question, of, count, each)}
            row |= {"data": type(evidence.data).__name__, "scale": json.dumps(asdict(evidence.scale))}
        if (status := decided.get(row["figure"])) is not None:
            row |= {"limit": allowed, "status": status.status, "needed": status.needed}
        rows.append(row)
    return rows


def _trials_hash(question: Question, of: Subject, count: int, observed: Observed) -> str:
    """Return a hash of the trials' texts and of all that determines the trials: texts, design, question and number."""
    inputs = [of.digest, repr(of.design), type(question).__name__, json.dumps(chosen_settings(question), default=str)]
    every = "\n".join([*inputs, str(count), *(text for text, _ in observed.of_texts)])
    return hashlib.sha256(every.encode()).hexdigest()[:DIGITS]
