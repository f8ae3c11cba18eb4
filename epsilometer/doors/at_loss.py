"""A comparison of mechanisms at one empirical loss, by any questions, on the same trials.

Each mechanism is calibrated by `which_text` to the same loss (`doors/calibrate.py`). Then all mechanisms are observed
in the same fresh trials, and each pair is compared (`doors/compare.py`). If the search finds no epsilon for a
mechanism, the mechanism has a row but is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.calibration.sampled import FOUND
from epsilometer.auditing.question import Question, check
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design, check_trials
from epsilometer.auditing.trials.sampling import sample
from epsilometer.cells.calibrating.losses import STANDARD_SEARCH, Search
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.doors.ask import answers
from epsilometer.doors.calibrate import calibrate, searched, searching
from epsilometer.doors.compare import compared_all, observed_by
from epsilometer.questions.similarity import Similarity
from epsilometer.questions.which_text import WhichText
from epsilometer.report.article import Article
from epsilometer.runtime.progress import note

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class AtLoss:
    """Mechanisms at one loss.

    target: the loss, in nats. texts: the number of texts. search, design: the settings of the search. calibrated: a row
    for each mechanism, like the rows of `calibrate`. subjects: the mechanisms whose epsilon was found, as subjects.
    """

    target: float
    texts: int
    search: Search
    design: Design
    calibrated: Rows
    subjects: Sequence[Subject]

    @property
    def is_complete(self) -> bool:
        """Return True if every mechanism has an epsilon at the loss."""
        return len(self.subjects) == len(self.calibrated)


@dataclass(frozen=True)
class Side:
    """The answers to one question about mechanisms at one loss.

    figures: a row for each mechanism and figure, like the rows of `ask` with a further column `mechanism`. compared: a
    row for each pair and figure, with columns `first` and `second`; empty for fewer than two mechanisms.
    """

    figures: Rows
    compared: Rows


def calibrated_to(
    texts: Sequence[str] | pl.DataFrame,
    mechanisms: Mapping[str, Mapping[str, Any]] | Sequence[Named],
    target: float,
    search: Search = STANDARD_SEARCH,
    *,
    design: Design = STANDARD,
    questions: Sequence[Question] = (),
) -> AtLoss:
    """Search, for each mechanism, for the epsilon at which its loss meets the target.

    mechanisms: names or objects, or names with settings. questions: the questions that will be asked later, to check
    beforehand that the mechanisms allow them. Raises UserError, before any search, for fewer than two mechanisms, for a
    mechanism that is repeated or has no privacy budget, for a target out of range, and for texts from which no
    candidate set can be drawn.
    """
    search.goal(target)  # refuses a target out of range
    named = list(mechanisms)
    labels = [api.label(name) for name in named]
    if len(named) < 2 or len(set(labels)) < len(labels):
        raise UserError(
            f"a comparison needs at least two different mechanisms, got {', '.join(labels)}; name another one",
            "EPS-Q071",
        )
    settings = mechanisms if isinstance(mechanisms, Mapping) else {}
    listed = api.distinct(texts["text"].to_list() if isinstance(texts, pl.DataFrame) else texts)
    every = []
    for name, label in zip(named, labels, strict=True):
        built = api.as_mechanism(name, settings.get(name) if isinstance(name, str) else None, listed)
        try:
            every.append(searching(texts, built, label, search, design=design))
        except UserError as error:
            raise error.at(label) from None
    for question in questions:
        for of in every:
            check(question, of)
    pool, used = every[0].pool, every[0].design
    sample(np.zeros((len(pool.texts), 1), np.float32), 1, used.k, 0.0, groups=pool.groups)  # refuses impossible sets
    if used.temperature:  # computed once for all searches and trials
        pool = replace(pool, embedded=api.embed(pool.texts))
    rows: Rows = []
    subjects = []
    for number, each in enumerate(every, start=1):
        of = replace(each, pool=pool)
        row = searched(partial(calibrate, WhichText(), of, target, search))
        rows.append({"mechanism": of.name, "target": target, **row})
        end = f"epsilon {row['epsilon']:g}" if row["status"] == FOUND else f"{row['status']} ({row['reason']})"
        note(f"calibration {number} of {len(every)}: {of.name}: {end}")
        if row["status"] == FOUND:
            subjects.append(of.at(row["epsilon"]))
    return AtLoss(target=target, texts=len(pool.texts), search=search, design=used, calibrated=rows, subjects=subjects)


def compared_at(at: AtLoss, question: Question, trials: int | None = None) -> Side:
    """Ask a question of the mechanisms in the same fresh trials, and compare each pair."""
    if not at.subjects:
        return Side([], [])
    sides = observed_by(question, at.subjects, trials)
    figures = [
        {"mechanism": of.name, **row}
        for of, side in zip(at.subjects, sides, strict=True)
        for row in answers(list(side.values()), of.epsilon, at.design.alpha)
    ]
    return Side(figures, compared_all(question, at.subjects, sides) if len(sides) > 1 else [])


def article(
    texts: Sequence[str] | pl.DataFrame,
    mechanisms: Mapping[str, Mapping[str, Any]] | Sequence[Named],
    target: float,
    search: Search,
    *,
    trials: int | None = None,
    name: str = "texts",
) -> Article:
    """Return a paper's results: the losses and similarities of mechanisms at one loss, compared. name: the texts' name.

    trials: the number of trials for each of the two questions; None for their usual numbers. Raises the UserErrors of
    `calibrated_to`.
    """
    similarity = Similarity(metric="cosine" if installed("models") else "jaccard")
    if trials is not None:
        check_trials(trials)
    at = calibrated_to(texts, mechanisms, target, search, questions=(WhichText(), similarity))
    losses, alike = (compared_at(at, question, trials) for question in (WhichText(), similarity))
    return Article(
        target=target,
        source=name,
        texts=at.texts,
        matched=search.match == "words",
        alpha=at.design.alpha,
        calibrated=at.calibrated,
        losses=losses.figures,
        leaks=losses.compared,
        similarities=alike.figures,
        keeps=alike.compared,
    )
