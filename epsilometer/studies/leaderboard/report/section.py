"""The leaderboard: a chart and a few tables per data set, one question each. Losses are in nats."""

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
    "each release's source. Exemplars come from the data set's public part; what other mechanisms read, models and "
    "word vectors, does not. Learners see releases alone, but for the rows `public only`."
)
_READING = (
    "Losses, worth and ceiling are those of the same sets of ten texts: by the mechanism's law, ≤ by the law of "
    "its latents, ≳ by two attacks (embeddings and letters), whose hits are counted without an interval: a share "
    "is then ≲. F1 is macro, on clean texts, with 99 % intervals of the mean, by a linear model of words and by a "
    "head on frozen sentence embeddings (MiniLM). Intervals are Student's t over five splits, which share the "
    "public part and no other text; where they learn from three times as many texts they share half of these, and "
    "the variance is corrected for it (Nadeau and Bengio 2003). An F1 whose interval is wider than F1 itself is "
    "not testable. Who infers an attribute is tested on the texts of the next split: that interval is "
    "approximate. `One sentence` is the public text that keeps most on these very sets."
)
_TIERS = (
    "At the largest budget with at most this loss and a delta at 4 nats of at most .01. Where that delta binds, "
    "the row is the same at larger losses and is shown once, at the smallest. In the class of pure epsilon a "
    "delta at 4 nats is 0 up to a largest loss of 4: where it binds, this budget is about 4 by construction, or "
    "larger where a mechanism loses less than its epsilon. Tiers are within a class of claims, by cosine: no row "
    "of a tier is shown to be below another row of it; different tiers alone order nobody. Controls, losses that "
    "are not known by law, and rows that keep on average no more than one sentence for all have no tier. A row "
    f"above others keeps more at these budgets, by paired t tests over the splits, at {LEVEL:.0%} for all pairs of "
    "a class and table together (Holm)."
)
_ANY = (
    "The same where a set's texts have any length. A mechanism that always keeps the number of words loses some nats "
    "by that alone. The two attacks do not use it, so that losses by attacks are not shown here."
)
_TAUGHT = (
    "At the budgets of the tiers, each row once. Known law: learnt with the known channel (loss correction). "
    "Infers: F1 of the attribute, learnt from releases and tested on releases. Teaches more than: whose F1 by "
    "words from the fewest releases is lower, by paired t tests like those of the tiers, corrected separately."
)
_MEASURED = (
    "Pure epsilon and worst pair are those of the pairs compared, at the budgets of the tiers. Budgets are known to 1 "
    "% by a law, to 3 % by attacks; no interval counts that. By attacks delta at 4 nats is a lower end, so that more "
    "may be given away there than .01."
)
_EFFORT = (
    "Processor time of those cells whose origin is known, and of what the cells of a data set share; without runs that "
    "were stopped, or repeated after code had changed."
)
_TOOK = "data set: {name} | cells: {cells} | run: {run} | origin is known: {known} | processor, minutes: {minutes:,}"


def section(results: Results[LeaderboardParams]) -> Section | None:
    """Tables per data set; absent where nothing is compared."""
    compared = boards(results)
    if not compared:
        return None
    absent = {*results.params.leaderboard.datasets} - {board.dataset for board in compared}
    words = [_CLEAR, _READING, *([f"Data sets not run: {', '.join(sorted(absent))}."] if absent else [])]
    blocks: list[Table | Figure] = []
    for board in compared:
        blocks += [figure(board), *tables(board), *filter(None, [corpora.table(results, board.dataset)])]
    blocks.append(_effort(compared))
    return Section("leaderboard", "Leaderboard", "Leaderboard", words, blocks=blocks)


def tables(board: Board) -> list[Table]:
    """The tables: worth, on texts of equal length first; what classifiers learn; the other budget; the measurement."""
    name, with_tail = board.dataset, board.rows.filter(budget=TAIL).to_dicts()
    first = [row for row in board.rows.filter(budget=AVERAGE).to_dicts() if row["epsilon"] is not None]
    averaged = [rows.averaged(board, row) for row in first]
    by_length = {each: rows.standing(board, each) for each in (EQUAL, ANY) if each in board.frontiers["lengths"]}
    main, *other = by_length
    kind = "equal length" if main == EQUAL else "any length"
    return [
        Table(
            f"Leaderboard on {name}",
            f"{_CLEAR} {_TIERS} The texts of a set have {kind}. {_absent(board)}",
            by_length[main],
            folded=True,
            picture=figure(board).name,
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
    """Name the cells that have not run."""
    by_loss: dict[float, list[str]] = {}
    for mechanism, loss in board.absent:
        by_loss.setdefault(loss, []).append(mechanism)
    parts = [
        f"at {loss:g} {', '.join(names) if loss in board.rows['loss'] else 'all mechanisms'}"
        for loss, names in sorted(by_loss.items())
    ]
    return f"Not run: {'; '.join(parts)}." if parts else "All cells have run."


def _averaged(rows: Sequence[Mapping[str, Any]]) -> str:
    """Count the losses and lengths at which the control keeps most."""
    most: dict[tuple[float, str], Mapping[str, Any]] = {}
    for row in sorted(rows, key=itemgetter("cosine")):
        most[row["loss"], row["lengths"]] = row
    won = sum(row["control"] for row in most.values())
    return (
        "At the budget where the loss is this, as far as it is known, by which nothing has a tier: the control `coin`, "
        f"which publishes some texts verbatim, keeps most at {won} of {len(most)} losses and lengths. Its other "
        "sentence is about nothing; with the best public text in its place it would keep still more."
    )


def _effort(compared: Sequence[Board]) -> Table:
    """The number of cells of each data set that have run, and their cost; the last row is the sum."""
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
