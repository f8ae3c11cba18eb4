"""Bounds on each limited figure of a cell, and the sources of these bounds. Losses are in nats.

An upper bound covers every adversary. Its source is a law or a count. A law describes the released view or the latents
behind that view, and is evaluated over all pairs of texts that trials can draw. A count covers recorded identifiers
that survive in the rewrites, or in anything that the mechanism can release (`worth.releases`). A law gives no upper
bound if the rewrites refute it. A mechanism without a law is a black box and has no upper bound on a loss.

A claim gives no upper bound: "not refuted" covers only the compared pairs, and other pairs may exceed the claim. If the
law's pure loss was computed for every pair, the largest pure loss bounds every average with certainty
(`exact_loss.rows.enumerated`). Otherwise the law's 99 % interval over sampled pairs decides; the interval's upper bound
fails with probability at most .005. Each limit has only one sampled upper bound, so alpha is not divided.

If a lower and an upper bound of the same law cross, the law is wrong, and an error is raised. If an attack's lower
bound exceeds a law's upper bound, the contradiction is reported and the upper bound is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.limits import ATTRIBUTE, DELTA, IDENTIFIERS, LOSS, Limits
from epsilometer.auditing.estimation.betting import fewest_alike
from epsilometer.auditing.estimation.successes import below_chance, clopper_pearson, loss_at, success_bound
from epsilometer.auditing.estimation.tail import fewest_trials, fewest_without
from epsilometer.auditing.evidence.combined import Combined, combine
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.exact_loss.all_pairs import ALL_PAIRS
from epsilometer.auditing.exact_loss.rows import ALL, ALPHA, largest_tail
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.worth import leakage
from epsilometer.auditing.worth.releases import STANDING

NO_LAW = "no law of what is released is known"
NARROW = (
    f"intervals over all pairs of texts have a confidence of {1 - ALPHA:.0%}, and audit.alpha asks for a higher one"
)
DEPARTED = "the rewrites do not follow the stated law"
FOLLOWED = "a corrected law, or a mechanism that follows its law"
TURNED: dict[str, Any] = {
    "why": "an attack is right less often than by chance: it distinguishes the candidates and names the wrong one",
    "settles": "that attack with its score inverted",
}
_CELL = ["dataset", "mechanism", "epsilon"]
_MOST = 10_000_000  # largest number of trials, pairs or texts that is reported


@dataclass(frozen=True)
class Assessed:
    """One limited figure of a cell: its bounds, and the evidence that would settle an open limit.

    shown: True for a black box if trials show that the strongest attack does not exceed the limit. For a limit on the
    tail, the most confident guesses take the place of the strongest attack. why, needed, settles: as in the schema
    `DECISIONS`.
    """

    limit: str
    allowed: float
    bounds: Combined = field(default_factory=Combined)
    shown: bool = False
    why: str | None = None
    needed: int | None = None
    settles: str | None = None

    @property
    def status(self) -> Status:
        """The status of the limit."""
        word = self.bounds.status(Limit(self.allowed, Scale(self.limit), ""))
        return Status.NOT_EXCEEDED if word is Status.OPEN and self.shown else word

    @property
    def decided(self) -> bool:
        """True if no other evidence about this limit is needed."""
        return self.status is not Status.OPEN or self.bounds.crossed is not None

    @classmethod
    def of(cls, limit: str, allowed: float, pieces: Sequence[Evidence], alpha: float) -> Assessed:
        """Combine evidence at the audit's alpha. Raises LawError if bounds of the same source cross."""
        both = combine(pieces, below=alpha, above=alpha)
        lawful = both.crossed is not None and both.crossed[1] in (By.LAW, By.LATENTS)
        return cls(limit, allowed, both, settles=FOLLOWED if lawful else None)


@dataclass(frozen=True)
class AuditedCell:
    """The rows of an audit for one mechanism, budget and data set.

    best: the row of `ESTIMATES` of the strongest attack on the released view. law: the row of `EXACT` over all pairs,
    None without a law. departs: True if rewrites refute the law. turned: True if an attack is right less often than by
    chance, so that attacks cannot show a limit to be kept. leaked: rows of `LEAKAGE`. standing: rows of
    `worth.releases.STANDING`, by kind. attributes: rows of `ATTRIBUTE_LOSSES`, by label. alpha: the alpha of the
    audit's intervals.
    """

    best: Mapping[str, Any]
    law: Mapping[str, Any] | None
    departs: bool
    turned: bool
    leaked: Sequence[Mapping[str, Any]]
    standing: Mapping[str, Mapping[str, Any]]
    attributes: Mapping[str, Mapping[str, Any]]
    alpha: float

    @property
    def lawful(self) -> Mapping[str, Any] | None:
        """The law, if rewrites do not refute it and its bounds are not wrong more often than the audit's alpha allows.

        Bounds by the pure loss of every pair are never wrong.
        """
        law = self.followed
        if law is None or self.alpha >= ALPHA:
            return law
        if law["relative_method"] != ALL_PAIRS:
            return None
        largest = law["relative_epsilon"]
        highs = {"all_high": largest, "all_delta_at_4": largest_tail(largest)}
        return {**law, "all_low": None, "all_delta_at_4_low": None, **highs}

    @property
    def followed(self) -> Mapping[str, Any] | None:
        """The law, if rewrites do not refute it."""
        return None if self.departs else self.law

    @property
    def no_law(self) -> dict[str, Any]:
        """The reason for a missing upper bound, and the remedy."""
        if self.law is not None and not self.departs:
            return {"why": NARROW, "settles": f"an audit.alpha of at least {ALPHA:g}"}
        if self.law is not None:
            return {"why": DEPARTED, "settles": FOLLOWED}
        return {"why": NO_LAW, "settles": "a law of what is released"}


@dataclass(frozen=True)
class Tables:
    """The tables of an audit: schemas `ESTIMATES`, `EXACT`, `LEAKAGE`, `ATTRIBUTE_LOSSES` and `STANDING`.

    A figure that was not measured has no rows.
    """

    estimates: pl.DataFrame
    exact: pl.DataFrame
    leaked: pl.DataFrame
    attribute_losses: pl.DataFrame
    standing: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=dict(STANDING)))


def cells(tables: Tables, alpha: float) -> Iterator[tuple[dict[str, Any], AuditedCell]]:
    """Yield the key of each cell (data set, mechanism, epsilon, control), and its rows."""
    departed = set(tables.estimates.filter("departs").select(_CELL).iter_rows())
    turned = {
        tuple(row[name] for name in _CELL)
        for row in tables.estimates.to_dicts()
        if below_chance(row["successes"], row["trials"], row["candidates"])
    }
    law, classes = _by_cell(tables.exact.filter(pairs=ALL)), _by_cell(tables.attribute_losses)
    shares = _by_cell(tables.leaked.filter(pl.col("kind") != leakage.ALL))
    for best in tables.estimates.filter(attack=STRONGEST).sort(_CELL).to_dicts():
        key = tuple(best[name] for name in _CELL)
        yield (
            {name: best[name] for name in (*_CELL, "control")},
            AuditedCell(
                best=best,
                law=next(iter(law.get(key, [])), None),
                departs=key in departed,
                turned=key in turned,
                leaked=shares.get(key, []),
                standing={row["kind"]: row for row in tables.standing.filter(**_family(best)).to_dicts()},
                attributes={row["attribute"]: row for row in classes.get(key, [])},
                alpha=alpha,
            ),
        )


def evidence(cell: AuditedCell, limits: Limits, attributes: Iterable[str]) -> Iterator[Assessed]:
    """Yield the evidence on each limit. attributes: the labels of the data set that must be hidden."""
    yield of_loss(cell, limits.loss)
    yield of_tail(cell, limits.delta_at_4)
    yield from (of_kind(row, limits.identifiers, cell.alpha, cell.standing.get(row["kind"])) for row in cell.leaked)
    yield from (of_attribute(cell, label, limits.attribute) for label in attributes)


def of_loss(cell: AuditedCell, allowed: float) -> Assessed:
    """Return the evidence on the average loss of guessing the source among the candidates of a trial."""
    best, law = cell.best, cell.lawful
    pieces = _of_law(LOSS, law, "all_low", "all_high")
    pieces += [_piece(LOSS, By.ATTACK, low=best["loss"])] if best["ceiling"] > 0 else []
    both = Assessed.of(LOSS, allowed, pieces, cell.alpha)
    if both.decided:
        return both
    between = partial(replace, both)
    if law is not None and cell.alpha >= ALPHA:
        return between(**_pairs(law, allowed))
    if best["ceiling"] <= allowed:
        why = f"an adversary who is always right would show {best['ceiling']:.2f} nats"
        return between(why=why, **_trials(best, allowed, 1.0))
    if cell.turned:
        return between(**TURNED)
    if best["upper"] <= allowed:
        return between(shown=True, **cell.no_law)
    why = "the loss of the strongest attack may be above or below the limit"
    return between(why=why, **_trials(best, allowed, best["success_rate"]))


def of_tail(cell: AuditedCell, allowed: float) -> Assessed:
    """Return the evidence on the mean delta at 4 nats over pairs. Delta shows leaks in few outputs; a loss does not."""
    best, law = cell.best, cell.lawful
    pieces = _of_law(DELTA, law, "all_delta_at_4_low", "all_delta_at_4")
    pieces += [] if best["delta_at_4_low"] is None else [_piece(DELTA, By.ATTACK, low=best["delta_at_4_low"])]
    both = Assessed.of(DELTA, allowed, pieces, cell.alpha)
    if both.decided:
        return both
    between, high = partial(replace, both), both.bounds.high
    if law is not None and cell.alpha >= ALPHA:
        mean, end = law["delta_at_4"] or 0.0, 1.0 if high is None else high[0]
        return between(why=_OPEN, needed=_more_pairs(law, 1 - mean, 1 - end, 1 - allowed), settles=_PAIRS)
    between = partial(replace, both, bounds=replace(both.bounds, high=None))
    if best["trials"] < (needed := fewest_trials(allowed, best["candidates"], cell.alpha)):
        return between(why="no guesses in these few trials could show it", needed=_counted(needed), settles=_TRIALS)
    if cell.turned:
        return between(**TURNED)
    if (most := best["delta_at_4_high"]) is not None and most <= allowed:
        return between(shown=True, **cell.no_law)
    needed = fewest_without(allowed, cell.alpha)
    more = _counted(needed) if best["trials"] < needed else None
    return between(
        why="by the most confident guesses, the tail may be above or below the limit", needed=more, settles=_TRIALS
    )


def of_kind(
    row: Mapping[str, Any], allowed: float, alpha: float, standing: Mapping[str, Any] | None = None
) -> Assessed:
    """Return the evidence on the share of a kind of identifier that survives. row: `LEAKAGE`. standing: `STANDING`."""
    limit = f"{IDENTIFIERS}: {row['kind']}"
    if row["recorded"] < row["identifiers"]:  # if the mechanism masks by these patterns, they find nothing
        why, settles = "the identifiers were matched by patterns, not recorded", "texts with recorded identifiers"
        return replace(
            Assessed.of(limit, allowed, [_piece(limit, By.COUNT, low=row["low"])], alpha), why=why, settles=settles
        )
    pieces = [_piece(limit, By.COUNT, low=row["low"], high=row["high"])]
    if standing is not None and standing["recorded"] == standing["identifiers"]:
        pieces.append(_piece(limit, By.RELEASES, high=standing["standing"] / standing["identifiers"]))
    both = Assessed.of(limit, allowed, pieces, alpha)
    if both.decided:
        return both
    share, needed = row["share"], None
    if share < allowed:
        needed = _first(lambda n: clopper_pearson(math.ceil(share * n), n, alpha)[1] <= allowed)
    return replace(both, why=_OPEN, needed=needed, settles="texts with such identifiers")


def of_attribute(cell: AuditedCell, label: str, allowed: float) -> Assessed:
    """Return the evidence on the loss of an attribute: only upper bounds by the law, no results of attackers."""
    limit, row, law = f"{ATTRIBUTE}: {label}", cell.attributes.get(label), cell.lawful
    pieces = []
    if law is not None and row is not None and cell.alpha >= ALPHA:
        pieces.append(_piece(limit, _by(law), high=row["upper"]))
    if law is not None and law["relative_method"] == ALL_PAIRS:
        pieces.append(_piece(limit, _by(law), high=law["relative_epsilon"]))
    both = Assessed.of(limit, allowed, pieces, cell.alpha)
    if both.decided:
        return both
    if pieces:
        return replace(both, why="the law gives only an upper bound", settles="a smaller budget")
    if law is None:
        return replace(both, **cell.no_law)
    return replace(both, why="the law's bound was not computed")


_OPEN = "the limit lies between both bounds"
_PAIRS, _TRIALS = "exact losses of pairs", "trials"


def _pairs(law: Mapping[str, Any], allowed: float) -> dict[str, Any]:
    """Return columns for a loss limit that the law leaves open, with the number of pairs that would settle it."""
    end = math.inf if law["all_high"] is None else law["all_high"]
    needed = _more_pairs(law, *(_overlap(loss) for loss in (law["average_high"], end, allowed)))
    return {"why": _OPEN, "needed": needed, "settles": _PAIRS}


def _more_pairs(law: Mapping[str, Any], mean: float, end: float, limit: float) -> int | None:
    """Estimate the number of pairs at which the lower bound `end` of a mean reaches a limit below the mean.

    The estimate assumes the observed spread. Returns None if the mean is not above the limit, since more pairs would
    not help.
    """
    if mean <= limit:
        return None
    at_least = fewest_alike(mean, limit, ALPHA)
    return _counted(max(at_least, law["compared"] * ((mean - end) / (mean - limit)) ** 2))


def _of_law(limit: str, law: Mapping[str, Any] | None, low: str, high: str) -> list[Evidence]:
    """Return the evidence in two columns of a law's row. A law of latents gives only an upper bound for the text."""
    if law is None:
        return []
    least = law[low] if law["released"] else None
    return [_piece(limit, _by(law), low=least, high=law[high])]


def _piece(limit: str, by: By, *, low: float | None = None, high: float | None = None) -> Evidence:
    """Return evidence from bounds at the audit's alpha. low, high: None for a missing bound."""
    data = Computed(-math.inf if low is None else low, math.inf if high is None else high, 0.0)
    return Evidence(limit, by, Scale(limit), data, covers=Covers.EVERYONE)


def _by(law: Mapping[str, Any]) -> By:
    return By.LAW if law["released"] else By.LATENTS


def _overlap(loss: float) -> float:
    """Return twice the error probability of guessing between two texts at this loss."""
    return 2 / (1 + math.exp(min(loss, 700.0)))


def _trials(best: Mapping[str, Any], allowed: float, rate: float) -> dict[str, Any]:
    """Return columns with the number of trials that would settle a loss if the rate of right guesses stays the same."""
    k, bound = best["candidates"], success_bound(allowed, best["candidates"])
    alpha = 2 * success_bound(best["ceiling"], k) ** best["trials"]  # the strongest attack's alpha, from its ceiling

    def apart(n: int) -> bool:
        low, high = clopper_pearson(round(rate * n), n, alpha)
        return loss_at(low, k) > allowed or loss_at(high, k) <= allowed

    return {"needed": None if rate == bound else _first(apart), "settles": _TRIALS}


def _first(enough: Callable[[int], bool]) -> int | None:
    """Return about the smallest number that is enough, by doubling and bisection; None if it exceeds _MOST."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return _counted(high)


def _counted(number: float | None) -> int | None:
    """Return a number rounded up to two digits; None if it exceeds _MOST."""
    if number is None or not number <= _MOST:
        return None
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return int(-(-number // unit) * unit)


def _family(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {name: cell[name] for name in _CELL[:2]}


def _by_cell(table: pl.DataFrame) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_dicts():
        rows.setdefault(tuple(row[name] for name in _CELL), []).append(row)
    return rows
