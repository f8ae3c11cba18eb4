"""`epsilometer decide` checks limits at ascending budgets; `reaudit` tests figures for changes since a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.asking import LimitOptions, With, columns, questions
from epsilometer.cli.gate import Texts
from epsilometer.cli.options import (
    Accept,
    Baseline,
    Epsilon,
    Epsilons,
    Json,
    Trials,
    numbers,
    shipped,
    told_if_dry,
)
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    from epsilometer.auditing.subject import Subject


def decide(
    texts: Texts, limits: LimitOptions, epsilons: Epsilons = None, trials: Trials = None, as_json: Json = False
) -> None:
    """Decide at which budgets a mechanism keeps its limits.

    Limits may be set on the figures of any questions. Prints a row for each budget and figure, and a row `all` for all
    limits together. A limit is *within* only with an upper bound that covers every adversary, for example by a stated
    law that the rewrites do not refute. Once a budget does not pass, no larger budget passes. The exit code is 0 if
    every budget passes, 1 if one is beyond a limit, and 3 otherwise.
    """
    from epsilometer.doors.decide import Decisions
    from epsilometer.doors.decide import decide as decide_at

    asked_for = limits.limits
    budgets = numbers(epsilons, "--epsilons must be numbers separated by commas")
    with told_if_dry(), withheld():
        of = _subject(texts, columns([question for question, _ in asked_for]), None if budgets is None else budgets[0])
        table = decide_at(asked_for, of, budgets, trials)
    show(table.to_dicts(), as_json, None if as_json else Decisions.short)
    raise typer.Exit(_code(table.filter(figure="all")["decision"].to_list()))


def _code(words: Sequence[str]) -> int:
    from epsilometer.auditing.evidence.status import Status

    if Status.BEYOND in words:
        return 1
    return 0 if all(Status(word).passes for word in words) else 3


@dataclass(frozen=True)
class Asked:
    """Options for the questions whose figures become the baseline."""

    question: Annotated[
        list[str],
        typer.Option(
            metavar="QUESTION",
            help=f"Question to measure with --accept; repeatable: {shipped('questions')}, or a .py file.",
        ),
    ] = field(default_factory=list)
    with_settings: With = field(default_factory=list)


def reaudit(
    texts: Texts,
    asked_for: Asked,
    epsilon: Epsilon = None,
    trials: Trials = None,
    baseline: Baseline = None,
    accept: Accept = False,
    as_json: Json = False,
) -> None:
    """Measure whether figures have changed since a baseline.

    The baseline holds the figures that --accept measured, of any questions. The same trials are drawn again. A sign
    test compares each figure, corrected for the number of figures; the re-audits of a year share alpha. The exit code
    is 0 if no figure is worse, 1 if one is, and 3 if no figure could be tested.
    """
    from epsilometer.doors import reaudit as door

    if baseline is None:
        raise UserError(
            "reaudit needs a file of accepted figures; name it with --baseline FILE, and write it first with --accept",
            "EPS-U068",
        )
    if accept != bool(asked_for.question):
        raise UserError(
            "--question has an effect only with --accept; leave it out, since the baseline holds its questions",
            "EPS-U036",
        )
    if accept:
        built = dict(zip(asked_for.question, questions(asked_for.question, asked_for.with_settings), strict=True))
        with told_if_dry(), withheld():
            accepted = door.accept(built, _subject(texts, columns(list(built.values())), epsilon), trials)
        door.write(accepted, baseline)
        note(f"accepted as {baseline}; measure again by the same command without --accept and --question")
        return
    before = door.read(baseline)
    with told_if_dry(), withheld():
        after, drifts = door.reaudit(before, _subject(texts, columns(before.asked_for), epsilon))
    door.write(after, baseline)
    if as_json:
        show(
            [{"figure": drift.row.attack, "change": drift.verdict, "p_value": drift.p_value} for drift in drifts], True
        )
    else:
        tell(*(drift.sentence() for drift in drifts))
    raise typer.Exit(door.exit_code(drifts))


def _subject(texts: Texts, read: Sequence[str], epsilon: float | None) -> Subject:
    texts.check(None)
    return texts.subject(epsilon, texts.reading.table(str(texts.file), read))
