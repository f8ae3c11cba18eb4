"""The epsilon at which a loss meets a target: in the cells of a project, or on texts of one's own. Losses are in nats.

A row that cannot be searched says why, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import fisher_exact

from epsilometer.auditing import one_call as api
from epsilometer.auditing.calibration import FALLING, FOUND, OUTSIDE, Calibrated, Watch, check, unwatched
from epsilometer.auditing.diagnostics import STRONGEST
from epsilometer.core import tables
from epsilometer.core.attack import Embedded
from epsilometer.core.component import file
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import build_mechanism
from epsilometer.project.code import digest
from epsilometer.project.journal import Journal
from epsilometer.project.params import Cell, Params
from epsilometer.runtime.progress import now_and_then
from epsilometer.text.words import words

NOT_SEARCHED = "not searched"
LENGTH = "length"  # the attack that sees how long a rewrite is, and nothing else
RANGE = (0.001, 1000.0)  # of epsilon, where nobody names one
_ALIKE = 0.01  # p-value from which two success rates pass for one


@dataclass(frozen=True)
class Wish:
    """What is sought: the epsilon at which the loss of `attack` (STRONGEST: the best of all) is `target`.

    sees: "text", "released" or "inside", as in `api.calibrate`. match: "words" or "none", what the candidates of a
    trial agree in; None: as the parameter file has it. low, high: ends of the range; None: those of the parameter file,
    or RANGE. width: ratio of the interval's ends to stop at. budget: most rewrites.
    """

    target: float
    attack: str = STRONGEST
    sees: str = "released"
    match: str | None = None
    low: float | None = None
    high: float | None = None
    width: float = 1.25
    budget: int = 20_000

    def __post_init__(self) -> None:
        for option, value, allowed in (
            ("match", self.match, (None, "words", "none")),
            ("sees", self.sees, api.VIEWS),
        ):
            if value not in allowed:
                raise UserError(f"{option} must be one of {', '.join(filter(None, allowed))}, got {value!r}")
        low, high = self.low, self.high
        check(
            self.target, low or min(RANGE[0], (high or 1) / 2), high or max(RANGE[1], (low or 1) * 2), self.width, 0.5
        )


def calibrate_cells(
    params: Params,
    wish: Wish,
    mechanisms: Sequence[str] = (),
    datasets: Sequence[str] = (),
    watch: Callable[[str], Watch] = lambda label: unwatched,
) -> Iterator[dict[str, Any]]:
    """A row a cell of the parameter file, of these mechanisms and data sets; all without names.

    Needs the data sets as the audit prepared them. What was counted is kept in data/calibrating. watch: by label, what
    is called while a cell is searched. Raises UserError for unknown names, before anything is rewritten.
    """
    for kind, asked, known in (
        ("mechanism", mechanisms, params.mechanisms),
        ("data set", datasets, params.datasets),
        ("attack", [] if wish.attack == STRONGEST else [wish.attack], params.attacks),
    ):
        for name in asked:
            if name not in known:
                raise unknown(kind, name, known)
    for cell in params.cells.values():
        if (mechanisms and cell.mechanism not in mechanisms) or (datasets and cell.dataset not in datasets):
            continue
        yield _row(cell.dataset, cell.mechanism, wish, partial(_search_cell, params, cell, wish, watch))


def said(label: str, wish: Wish) -> Watch:
    """Says now and then how far a search is."""
    say = now_and_then()

    def watch(spent: int, low: float, high: float) -> None:
        say(f"{label}: epsilon between {low:.3g} and {high:.3g} after {spent} of at most {wish.budget} rewrites")

    return watch


def calibrate_texts(
    name: str,
    texts: Sequence[str],
    mechanism: str,
    settings: Mapping[str, Any],
    wish: Wish,
    alpha: float = 0.01,
    seed: int = 0,
    watch: Callable[[str], Watch] = lambda label: unwatched,
) -> dict[str, Any]:
    """The row of one mechanism on texts that are no part of a parameter file; `name`: of the texts."""

    made = api.as_mechanism(mechanism, settings, texts)
    attacks = None if wish.attack == STRONGEST else [wish.attack]
    api.chosen_attacks(attacks)  # unknown names are refused, and are no row

    def search() -> tuple[Calibrated, bool]:
        matched = wish.match == "words"
        found = api.calibrate(
            texts,
            made,
            wish.target,
            wish.low or RANGE[0],
            wish.high or RANGE[1],
            attacks,
            width=wish.width,
            alpha=alpha,
            seed=seed,
            budget=wish.budget,
            groups=np.array([len(words(text)) for text in texts]) if matched else None,
            watch=watch(f"{mechanism} on {name}"),
            sees=wish.sees,
        )
        return found, matched

    return _row(name, mechanism, wish, search)


def reason(found: Calibrated, wish: Wish, matched: bool) -> str | None:
    """Why there is no epsilon, or what to think of it; None where there is nothing to say.

    matched: whether the candidates were of equal length already.
    """
    first, last = found.points[0], found.points[-1]
    if found.status == OUTSIDE and found.low == 0:
        if not matched and (length := _length(found)):
            return (
                f"length alone gives {length[0]:.2f} nats at epsilon {first.epsilon:g} and {length[1]:.2f} at "
                f"{last.epsilon:g}, so that no epsilon meets {found.target:g} where texts keep their length; "
                "--match words searches for what leaks beyond it"
            )
        return (
            f"the loss is {first.loss:.2f} nats already at the smallest epsilon, {first.epsilon:g}; "
            "--low searches below it"
        )
    if found.status == OUTSIDE:
        return f"the loss is {last.loss:.2f} nats at the largest epsilon, {last.epsilon:g}; --high searches beyond it"
    if found.contradiction:
        high, low = found.contradiction
        seen = f"{high.loss:.2f} nats at epsilon {high.epsilon:g} and {low.loss:.2f} at {low.epsilon:g}"
        if found.status == FALLING:
            return f"the loss falls where it should rise: {seen}; no epsilon keeps it below the target from there down"
        if found.best is None:
            return f"the loss does not rise throughout: {seen}; it is above the target already at {first.epsilon:g}"
        return f"the loss does not rise throughout: {seen}; below the interval no measured epsilon exceeds the target"
    return None if found.status == FOUND else f"{found.trials} rewrites did not decide; --budget allows more"


def _row(dataset: str, mechanism: str, wish: Wish, search: Callable[[], tuple[Calibrated, bool]]) -> dict[str, Any]:
    named = {"dataset": dataset, "mechanism": mechanism, "target": wish.target, "sees": wish.sees}
    try:
        found, matched = search()
    except UserError as error:
        nothing = {"epsilon": None, "low": None, "high": None, "trials": 0}
        return {**named, "status": NOT_SEARCHED, **nothing, "reason": str(error)}
    result = {"epsilon": found.best, "low": found.low, "high": found.high, "trials": found.trials}
    return {**named, "status": found.status, **result, "reason": reason(found, wish, matched)}


def _search_cell(params: Params, cell: Cell, wish: Wish, watch: Callable[[str], Watch]) -> tuple[Calibrated, bool]:
    if cell.epsilons is None:
        raise UserError(f"{cell.mechanism} has no privacy budget, so there is none to calibrate; audit it instead")
    if len(cell.epsilons) < 2 and None in (wish.low, wish.high):
        raise UserError("params.yaml gives it one epsilon, so there is no range to search; --low and --high give one")
    low, high = wish.low or min(cell.epsilons), wish.high or max(cell.epsilons)
    named = params.attacks if wish.attack == STRONGEST else {wish.attack: params.attacks[wish.attack]}
    table = tables.read(f"data/prepared/{cell.dataset}.parquet", tables.PREPARED)
    table = table.filter(pl.col("split") == params.datasets[cell.dataset].use)
    embeddings = Path(f"data/embeddings/{cell.dataset}.npy")
    match = wish.match or params.match(cell.dataset)
    given = [cell.mechanism, cell.settings, named, params.embedding.model_dump(), params.trials.model_dump()]
    read = [Path(cell.resource)] if cell.resource else []
    kept = digest(
        [*given, match, params.audit.seed],
        table["text"],
        [Path(__file__), params.code(cell), *(file("attacks", name) for name in named)],
        [*read, embeddings, *named_files([named, cell.settings, *named.values()])],
        Path(params.root).resolve(),
    )
    label = f"{cell.mechanism} on {cell.dataset}"
    found = api.calibrate(
        table["text"].to_list(),
        build_mechanism(str(params.code(cell)), cell.settings, cell.resource, f"mechanisms.{cell.mechanism}.settings"),
        wish.target,
        low,
        high,
        named,
        params.trials.candidates,
        params.trials.temperature,
        wish.width,
        params.audit.alpha,
        params.audit.seed,
        wish.budget,
        Embedded(params.embedding.model, params.embedding.precision, np.load(embeddings)),
        table["words"].to_numpy() if match == "words" else None,
        Journal(Path(f"data/calibrating/{cell.mechanism}-{cell.dataset}-{kept}.jsonl")),
        watch(label),
        sees=wish.sees,
    )
    return found, match == "words"


def _length(found: Calibrated) -> tuple[float, float] | None:
    """The losses that length alone gives at both ends, where they exceed the target and do not depend on epsilon."""
    if LENGTH not in found.attacks:
        return None
    i, ends = found.attacks.index(LENGTH), (found.points[0], found.points[-1])
    counts = [[end.successes[i], end.trials[i] - end.successes[i]] for end in ends]
    losses = ends[0].losses[i], ends[1].losses[i]
    return losses if min(losses) > found.target and fisher_exact(counts).pvalue > _ALIKE else None


def named_files(settings: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The files and folders that are named in settings, by key (an attack of the user's own) or by value."""
    names = [name for one in settings for name in (*one, *one.values()) if isinstance(name, str) and name]
    return [Path(name) for name in names if Path(name).exists()]
