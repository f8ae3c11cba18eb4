"""The rows of the leaderboard's tables, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scipy.stats import ttest_1samp

from epsilometer.auditing.estimation.runs import mean_and_reach
from epsilometer.core.rounding import NOT_TESTABLE
from epsilometer.report.table import NONE
from epsilometer.report.wording import as_number, budget, listed, mean_interval, tail_words
from epsilometer.studies.leaderboard.learning import SENTENCES, WORDS
from epsilometer.studies.leaderboard.plain import SENTENCE
from epsilometer.studies.leaderboard.report.standing import Board, exceeds
from epsilometer.studies.leaderboard.tables import SIZES, SPLITS, TAIL

_ENDS = {"law": "", "latents": "≤ ", "attacks": "≳ "}  # sign before a loss, by its source
_SHARES = {"law": "", "latents": "≥ ", "attacks": "≲ "}  # sign before a share of the possible
_TURNED = {"law": "", "latents": "≤ ", "attacks": "≳ "}  # sign before a negative share of the possible
_BY = {"law": "law", "latents": "law of latents", "attacks": "attacks"}
_LEARNERS = {WORDS: "words", SENTENCES: "head"}
_TOLD = ("mechanism", "loss")  # the columns that identify a row of any table

Row = Mapping[str, Any]


def standing(board: Board, lengths: str) -> list[dict[str, str]]:
    """Return the rows of the main table, for sets of these lengths.

    Rows without a mechanism come first, then every mechanism at every loss that has run.
    """
    of_mechanisms = board.rows.filter(lengths=lengths, budget=TAIL).to_dicts()
    return [*_plain(board, lengths), *(_standing(board, row) for row in of_mechanisms)]


def _standing(board: Board, row: Row) -> dict[str, str]:
    above = row["above"] and f"above {', '.join(row['above'])}"
    binds = "its tail binds" if row["tail_binds"] else None
    less = "its cosine is below that of one sentence for all" if _keeps_less(board, row) else None
    more = "its loss is above the target" if exceeds(row) else None
    tier = NONE if row["tier"] is None else str(row["tier"])
    begin = {**_named(row), "claim": row["claim_class"] or NONE, "tier": tier}
    remarks = (row["reason"], binds, _repeated(row), above, less, more)
    return {**begin, **_worth(board, row), "remark": "; ".join(filter(None, remarks))}


def _repeated(row: Row) -> str | None:
    """Return a remark such as `the same at 1 and 2 (tier 3)`, or None.

    The remark lists the other losses at which the row repeats, each with the row's tier there if the tier differs.
    """
    losses = [
        f"{at['loss']:g}" if at["tier"] == row["tier"] else f"{at['loss']:g} (tier {at['tier'] or NONE})"
        for at in row["repeated"] or ()
    ]
    return f"the same at {listed(losses)}" if losses else None


def _keeps_less(board: Board, row: Row) -> bool:
    """Return True if a row's cosine is significantly below that of one sentence for all.

    The test is a one-sided t test over the splits, at a level of .005.
    """
    values = board.values(row, "cosine")
    if values is None:
        return False
    test = ttest_1samp(values, board.one_text(row["lengths"]), alternative="less")
    return bool(test.pvalue <= 0.005)


def _plain(board: Board, lengths: str) -> Iterator[dict[str, str]]:
    """Yield the rows of clean texts, one sentence for all, and public texts alone, at the smaller number of texts."""
    fewest = board.texts[0]
    for (name, texts), group in board.plain.filter(figure="task").group_by("row", "texts", maintain_order=True):
        if texts != fewest and texts in board.texts:
            continue
        row = {"mechanism": f"{name} ({texts:,} texts)"} | dict.fromkeys(("loss", "claim", "tier"), NONE)
        row |= dict.fromkeys(("epsilon", "average", "delta at 4", "cosine", "ceiling", "share"), "")
        if name == SENTENCE:
            row |= {"cosine": f"{board.one_text(lengths):.3f}", "share": "0"}
        f1 = {f"F1 {_LEARNERS[each['learner']]}": interval(each["values"]) for each in group.to_dicts()}
        yield {**row, **f1, "remark": ""}


def taught(board: Board, rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the rows of the table of F1, by learner and number of releases.

    Rows without a mechanism come first. Empty columns are left out.
    """
    every = [
        *_plain_taught(board),
        *(each for row in rows if row["epsilon"] is not None for each in _taught(board, row)),
    ]
    used = [name for name in every[0] if name in _TOLD or any(row[name] for row in every)]
    return [{name: row[name] for name in used} for row in every]


def _taught(board: Board, row: Row) -> Iterator[dict[str, str]]:
    """Yield a row for learners that do not use the law, and one for learners that do. Empty rows are left out."""
    for by_law in (False, True):
        f1 = {
            f"{name}, {board.texts[size]:,}": _f1(board, row, "task", learner, size=size, by_law=by_law)
            for size in range(len(SIZES))
            for learner, name in _LEARNERS.items()
        }
        if any(f1.values()):
            begin = {**_named(row), "lengths": row["lengths"], "law": "known" if by_law else ""}
            infers = {
                f"infers, {name}": _f1(board, row, "attribute", learner, by_law=by_law)
                for learner, name in _LEARNERS.items()
            }
            more = "" if by_law else ", ".join(row["teaches_more"] or ())
            yield {**begin, **f1, **infers, "teaches more than": more}


def _plain_taught(board: Board) -> Iterator[dict[str, str]]:
    for (name,), group in board.plain.group_by("row", maintain_order=True):
        row = {"mechanism": str(name), "loss": NONE, "lengths": "", "law": ""}
        row |= {f"{learner}, {texts:,}": "" for texts in board.texts for learner in _LEARNERS.values()}
        row |= {f"infers, {learner}": "" for learner in _LEARNERS.values()} | {"teaches more than": ""}
        for each in group.to_dicts():
            learner, task = _LEARNERS[each["learner"]], each["figure"] == "task"
            if not task or each["texts"] in board.texts:
                shared = in_common(board.texts.index(each["texts"])) if each["texts"] in board.texts else 0
                cell = interval(each["values"], shared=shared)
                row[f"{learner}, {each['texts']:,}" if task else f"infers, {learner}"] = cell
        if any(row[column] for column in row if column not in _TOLD):
            yield row


def averaged(board: Board, row: Row) -> dict[str, str]:
    """Return the row of a mechanism at its first budget, whose average loss is the target."""
    worth = {name: cell for name, cell in _worth(board, row).items() if name != "ceiling"}
    return {**_named(row), "lengths": row["lengths"], **worth, "remark": row["reason"] or ""}


def measured(board: Board, row: Row) -> dict[str, str]:
    """Return a row's losses other than the average, and the origin of the row: commit, date and processor time."""
    origin = board.origins[row["mechanism"], row["loss"]]
    speed = NONE if row["words_a_second"] is None else f"{row['words_a_second']:,.0f}"
    return {
        **_named(row),
        "lengths": row["lengths"],
        "loss known by": _BY[row["by"]],
        "pure epsilon": as_number(row["pure"]),
        "worst pair": as_number(row["worst"]),
        "words a second": speed,
        "processor, s": NONE if origin is None else f"{origin.seconds:,.0f}",
        "commit": NONE if origin is None else origin.commit,
        "measured": NONE if origin is None else origin.date,
    }


def _named(row: Row) -> dict[str, str]:
    return {"mechanism": row["mechanism"] + (" (control)" if row["control"] else ""), "loss": f"{row['loss']:g}"}


def _worth(board: Board, row: Row) -> dict[str, str]:
    """Return the loss, the worth and the learners' F1 at a budget; dashes if the row has no budget."""
    columns = ("epsilon", "average", "delta at 4", "cosine", "ceiling", "share", "F1 words", "F1 head")
    if row["epsilon"] is None:
        return dict.fromkeys(columns, NONE)
    f1 = (_f1(board, row, "task", learner) for learner in _LEARNERS)
    average, share = _ENDS[row["by"]] + as_number(row["average"]), NONE
    if row["share"] is not None:
        share = f"{(_TURNED if row['share'] < 0 else _SHARES)[row['by']]}{row['share']:.2f}"
    worth = (f"{row['cosine']:.3f}", f"{row['ceiling']:.3f}", share)
    return dict(zip(columns, (budget(row["epsilon"]), average, _tail(row), *worth, *f1), strict=True))


def _tail(row: Row) -> str:
    ends = {"law": (row["delta_at_4"], row["delta_at_4"]), "latents": (None, row["delta_at_4"])}
    return tail_words(*ends.get(row["by"], (row["delta_at_4"], None)))


def _f1(board: Board, row: Row, figure: str, learner: str, *, size: int = 0, by_law: bool = False) -> str:
    values = board.values(row, figure, learner, size, by_law=by_law)
    return "" if values is None else interval(values, shared=in_common(size))


def interval(values: Sequence[float], *, shared: float = 0) -> str:
    """Return the mean F1 with its interval, or `not testable` if the interval is wider than the mean.

    values: one F1 per split; shared: the mean share of training texts that two of the values have in common.
    """
    mean, reach = mean_and_reach(values, shared=shared)
    return NOT_TESTABLE if 2 * reach > mean else mean_interval(values, shared=shared)


def in_common(size: int) -> float:
    """Return the mean share of training texts that the classifiers of two splits have in common.

    size: an index in SIZES. Classifiers that learn from more than one block share blocks with those of other splits.
    """
    return (SIZES[size] - 1) / (SPLITS - 1)
