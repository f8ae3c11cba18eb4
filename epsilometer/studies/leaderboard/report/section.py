"""The leaderboard's section of the report: a chart and a few tables per data set. Losses are in nats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from epsilometer.report.figures import Figure
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.studies.leaderboard.params import LeaderboardParams
from epsilometer.studies.leaderboard.ranking import LEVEL
from epsilometer.studies.leaderboard.report import corpora, rows
from epsilometer.studies.leaderboard.report.picture import figure
from epsilometer.studies.leaderboard.report.standing import Board, boards
from epsilometer.studies.leaderboard.tables import ANY, AVERAGE, EQUAL, TAIL

_CLEAR = (
    "Labels are released in the clear: a mechanism protects the text alone, and every learner gets the true label of "
    "each release's source. Exemplars come from the data set's public part; the models and word vectors of other "
    "mechanisms do not. Learners see releases alone, except in the rows `public only`."
)
_READING = (
    "Losses, worth and ceiling are measured on the same sets of ten texts. A loss without a sign comes from the "
    "mechanism's law. ≤ marks an upper bound by the law of its latents. ≳ marks an estimate by two attacks "
    "(embeddings and letters), without an interval; the share is then marked ≲. F1 is macro F1 on clean texts with a "
    "99 % interval of the mean, by a linear model of words and by a head on frozen sentence embeddings (MiniLM). "
    "Intervals are Student's t over five splits, which share the public part and no other text. Where splits learn "
    "from three times as many texts, two of them have half of these texts in common, and the variance is corrected "
    "for it (Nadeau and Bengio 2003). F1 is not testable if its interval is wider than F1. Attackers who infer an "
    "attribute are tested on the texts of the next split, so that their interval is approximate. `One sentence` is "
    "the public text with the largest mean cosine on these sets."
)
_TIERS = (
    "Rows are at the largest budget with at most this loss and a delta at 4 nats of at most .01. If that delta "
    "limits the budget (its tail binds), the row is the same at larger losses and is shown once, at the smallest "
    "loss. In the class of pure epsilon, delta at 4 nats is 0 while no output has a loss above 4. If delta at 4 nats "
    "limits the budget of such a mechanism, the budget is therefore about 4, or larger if the mechanism loses less "
    "than its epsilon. Tiers are within a class of claims, by cosine: no row is significantly below another row of "
    "its tier. Rows in different tiers may not differ significantly. Controls, rows whose loss is not known by law, "
    "and rows whose mean cosine is at "
    "most that of one sentence for all have no tier. A row above others has a larger cosine at these budgets, by "
    f"paired t tests over the splits, at {LEVEL:.0%} for all pairs of a class and table together (Holm)."
)
_ANY = (
    "The same table for sets of texts of any length. A mechanism that never changes the number of words reveals this "
    "number, which adds to its loss here. The two attacks do not use the number of words, so rows whose loss "
    "comes from attacks are left out."
)
_TAUGHT = (
    "The budgets are those of the tiers. Each row appears once. Law known: the learner corrects for the mechanism's "
    "law (loss correction). Infers: F1 of the attribute, trained and tested on releases. Teaches more than: mechanisms "
    "with a lower F1 by words from the fewest releases, by paired t tests like those of the tiers, corrected "
    "separately."
)
_MEASURED = (
    "Pure epsilon and worst pair are computed over the compared pairs, at the budgets of the tiers. A search by a law "
    "finds a budget to within 1 %, a search by attacks to within 3 %; no interval accounts for this. By attacks, delta "
    "at 4 nats is a lower bound, so the true delta may exceed .01."
)
_EFFORT = (
    "Processor time of the cells whose origin is known, and of the parts that the cells of a data set share. Runs that "
    "were stopped, or repeated after a change of code, are not counted."
)
_TOOK = "data set: {name} | cells: {cells} | run: {run} | origin is known: {known} | processor, minutes: {minutes:,}"


def section(results: Results[LeaderboardParams]) -> Section | None:
    """Return the section with charts and tables per data set, or None if nothing has run."""
    compared = boards(results)
    if not compared:
        return None
    absent = {*results.params.leaderboard.datasets} - {board.dataset for board in compared}
    words = [_CLEAR, _READING, *([f"Data sets not run: {', '.join(sorted(absent))}."] if absent else [])]
    blocks: list[Table | Figure] = []
    for board in compared:
        blocks += filter(None, [figure(board), *tables(board), corpora.table(results, board.dataset)])
    blocks.append(_effort(compared))
    return Section("leaderboard", "Leaderboard", "Leaderboard", words, blocks=blocks)


def tables(board: Board) -> list[Table]:
    """Return a data set's tables: worth by length of texts, classifiers' F1, the first budget, and the measurement."""
    name, with_tail = board.dataset, board.rows.filter(budget=TAIL).to_dicts()
    first = [row for row in board.rows.filter(budget=AVERAGE).to_dicts() if row["epsilon"] is not None]
    averaged = [rows.averaged(board, row) for row in first]
    by_length = {each: rows.standing(board, each) for each in (EQUAL, ANY) if each in board.frontiers["lengths"]}
    main, *other = by_length
    kind, chart = "equal length" if main == EQUAL else "any length", figure(board)
    return [
        Table(
            f"Leaderboard on {name}",
            f"{_CLEAR} {_TIERS} The texts of a set have {kind}. {_absent(board)}",
            by_length[main],
            folded=True,
            picture=chart.name if chart else None,
        ),
        *(Table(f"Texts of any length on {name}", _ANY, by_length[each], folded=True) for each in other),
        Table(f"What releases teach on {name}", _TAUGHT, rows.taught(board, with_tail), folded=True),
        Table(f"At the average loss on {name}", _averaged(first), averaged, folded=True),
        Table(
            f"How {name} was measured",
            _MEASURED,
            [rows.measured(board, row) for row in with_tail],
            folded=True,
        ),
    ]


def _absent(board: Board) -> str:
    """Return a sentence that lists the cells that have not run."""
    by_loss: dict[float, list[str]] = {}
    for mechanism, loss in board.absent:
        by_loss.setdefault(loss, []).append(mechanism)
    parts = [
        f"at {loss:g} {', '.join(names) if loss in board.rows['loss'] else 'all mechanisms'}"
        for loss, names in sorted(by_loss.items())
    ]
    return f"Not run: {'; '.join(parts)}." if parts else "All cells have run."


def _averaged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the caption of the table at the first budget, with the number of losses and lengths where controls win."""
    most: dict[tuple[float, str], Mapping[str, Any]] = {}
    for row in sorted(rows, key=itemgetter("cosine")):
        most[row["loss"], row["lengths"]] = row
    won = sum(row["control"] for row in most.values())
    return (
        "At the budget whose average loss is the target. The loss may be a bound or an estimate. These rows have no "
        "tier, because the control `coin`, which publishes some texts verbatim, has the largest cosine at "
        f"{won} of {len(most)} losses and lengths. For the other texts, `coin` publishes an unrelated sentence. "
        "If it published the best public text instead, its cosine would be even larger."
    )


def _effort(compared: Sequence[Board]) -> Table:
    """Return the table of the cells that have run and of their processor time, by data set, with a row of totals."""
    of = {board.dataset: [each for each in (board.prepared, *board.origins.values()) if each] for board in compared}
    counts = [
        {
            "cells": len(board.origins) + len(board.absent),
            "run": len(board.origins),
            "known": sum(origin is not None for origin in board.origins.values()),
            "minutes": round(sum(origin.seconds for origin in of[board.dataset]) / 60),
        }
        for board in compared
    ]
    total = {name: sum(row[name] for row in counts) for name in counts[0]}
    rows = [{"name": name, **row} for name, row in zip([*of, "all"], [*counts, total], strict=True)]
    machines = " and ".join(sorted({origin.hardware for origins in of.values() for origin in origins}))
    caption = f"{_EFFORT} On {machines}." if machines else _EFFORT
    return Table("What cells took", caption, records(rows, _TOOK), folded=True)
