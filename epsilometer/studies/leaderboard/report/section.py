"""The leaderboard: a picture and a table a data set. Losses are in nats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table
from epsilometer.report.wording import as_number, budget, tail_words
from epsilometer.studies.leaderboard.learning import SENTENCES, WORDS
from epsilometer.studies.leaderboard.params import LeaderboardParams
from epsilometer.studies.leaderboard.plain import SENTENCE
from epsilometer.studies.leaderboard.ranking import LEVEL
from epsilometer.studies.leaderboard.report.picture import figure
from epsilometer.studies.leaderboard.report.standing import Board, boards
from epsilometer.studies.leaderboard.tables import AVERAGE, SIZES, TAIL

_ENDS = {"law": "", "latents": "≤ ", "attacks": "≥ "}  # what a loss is known by
_OF_CELL = ("mechanism", "loss", "lengths")
_INFERS = {WORDS: "who infers, words", SENTENCES: "who infers, sentences"}
_SHARES = {"law": "", "latents": "≥ ", "attacks": "≤ "}
_READING = (
    "Labels are released in the clear: a mechanism protects the text alone, and every learner gets the true label of "
    "each release's source. Every mechanism and learner gets the same public part.",
    "The main columns are about the largest budget with at most this loss and a delta at 4 nats of at most .01; the "
    "last ones about the budget with exactly this average loss, at which publishing some texts verbatim (`coin`) wins, "
    "and by which nothing is ranked. Losses, worth and ceiling are those of the same sets of ten texts: by the "
    "mechanism's law, ≤ by the law of its latents, ≥ by attacks.",
    "Ranks are within a class of claims, by cosine; controls, and losses known by attacks alone, have none. `above` "
    "names those of the class that a mechanism surely keeps more than, `teaches more` those that it surely teaches "
    f"more than (words, fewer texts), by paired t tests over the splits, at {LEVEL:.0%} for all pairs of a class "
    "together (Holm). F1 is macro, on clean texts, the mean of five splits that share no text; by law: learnt with the "
    "known channel (loss correction).",
)


def section(results: Results[LeaderboardParams]) -> Section | None:
    """A table a data set; absent where nothing is compared."""
    compared = boards(results)
    if not compared:
        return None
    absent = {*results.params.leaderboard.datasets} - {board.dataset for board in compared}
    words = [*_READING, *([f"Data sets not run: {', '.join(sorted(absent))}."] if absent else [])]
    blocks = [block for board in compared for block in (figure(board), table(board))]
    return Section("leaderboard", "Leaderboard", "Leaderboard", words, blocks=blocks)


def table(board: Board) -> Table:
    """Rows that need no mechanism, then every mechanism at every loss that has run."""
    ours = [_row(board, each) for each in board.rows.filter(budget=TAIL).to_dicts()]
    columns = dict.fromkeys((name for row in ours for name in row), "")
    rows = [*({**columns, **row} for row in _plain(board)), *ours]
    caption = f"{_READING[0]} {_absent(board)}"
    return Table(f"Leaderboard on {board.dataset}", caption, rows, folded=True, picture=figure(board).name)


def _absent(board: Board) -> str:
    """Which cells have not run."""
    by_loss: dict[float, list[str]] = {}
    for mechanism, loss in board.absent:
        by_loss.setdefault(loss, []).append(mechanism)
    parts = [
        f"at {loss:g} {', '.join(names) if loss in board.rows['loss'] else 'all mechanisms'}"
        for loss, names in sorted(by_loss.items())
    ]
    return f"Not run: {'; '.join(parts)}." if parts else "All cells have run."


def _plain(board: Board) -> Iterator[dict[str, Any]]:
    """Rows without a mechanism, a row a number of texts learnt from."""
    for (name, texts), group in board.plain.group_by("row", "texts", maintain_order=True):
        row: dict[str, Any] = {"mechanism": f"{name} ({texts:,} texts)", "loss": "–", "lengths": "–", "claim": "–"}
        place = board.texts.index(texts) if texts in board.texts else 0
        if name == SENTENCE:
            fixed = board.frontiers.select("lengths", "one_text").iter_rows()
            row |= {"cosine": ", ".join(f"{lengths}: {cosine:.3f}" for lengths, cosine in fixed), "share": "0"}
        for each in group.to_dicts():
            value = f"{np.mean(each['values']):.3f}"
            row[_column(board, each["learner"], place) if each["figure"] == "task" else _INFERS[each["learner"]]] = (
                value
            )
        yield row


def _column(board: Board, learner: str, place: int, by_law: bool = False) -> str:
    return f"F1 {learner}{' by law' if by_law else ''}, {board.texts[place]:,}"


def _row(board: Board, row: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism at the second budget, then at the first."""
    (first,) = board.rows.filter(budget=AVERAGE, **{name: row[name] for name in _OF_CELL}).to_dicts()
    begin = {
        "mechanism": row["mechanism"] + (" (control)" if row["control"] else ""),
        "loss": f"{row['loss']:g}",
        "lengths": row["lengths"],
        "claim": row["claim_class"] or "–",
        "rank": NONE if row["rank"] is None else str(row["rank"]),
    }
    if row["epsilon"] is None:
        return begin | _at_average(board, first) | {"remark": row["reason"]}
    f1 = {
        _column(board, learner, place, by_law): _mean(board, row, "task", learner, size=place, by_law=by_law)
        for by_law in (False, True)
        for place in range(len(SIZES))
        for learner in (WORDS, SENTENCES)
    }
    return {
        **begin,
        "epsilon": budget(row["epsilon"]),
        "average": _ENDS[row["by"]] + as_number(row["average"]),
        "delta at 4": _tail(row),
        "pure": as_number(row["pure"]),
        "worst pair": as_number(row["worst"]),
        "cosine": f"{row['cosine']:.3f}",
        "ceiling": f"{row['ceiling']:.3f}",
        "share": _share(row),
        **f1,
        **{column: _mean(board, row, "attribute", learner) for learner, column in _INFERS.items()},
        "words a second": f"{row['words_a_second']:,.0f}",
        "above": ", ".join(row["above"] or ()),
        "teaches more": ", ".join(row["teaches_more"] or ()),
        **_at_average(board, first),
        "remark": row["reason"] or "",
    }


def _at_average(board: Board, row: Mapping[str, Any]) -> dict[str, str]:
    """The columns of the first budget, of exactly the average loss."""
    if row["epsilon"] is None:
        return {}
    return {
        "at the average: epsilon": budget(row["epsilon"]),
        "its average": _ENDS[row["by"]] + as_number(row["average"]),
        "its delta at 4": _tail(row),
        "its cosine": f"{row['cosine']:.3f}",
        "its share": _share(row),
        **{f"its F1 {learner}": _mean(board, row, "task", learner) for learner in (WORDS, SENTENCES)},
    }


def _tail(row: Mapping[str, Any]) -> str:
    ends = {"law": (row["delta_at_4"], row["delta_at_4"]), "latents": (None, row["delta_at_4"])}
    return tail_words(*ends.get(row["by"], (row["delta_at_4"], None)))


def _share(row: Mapping[str, Any]) -> str:
    return "–" if row["share"] is None else f"{_SHARES[row['by']]}{row['share']:.2f}"


def _mean(
    board: Board, row: Mapping[str, Any], figure: str, learner: str, *, size: int = 0, by_law: bool = False
) -> str:
    values = board.values(row, figure, learner, size, by_law=by_law)
    return "" if values is None else f"{np.mean(values):.3f}"
