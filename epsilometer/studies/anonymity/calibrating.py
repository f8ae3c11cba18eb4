"""Search for the epsilon at which the attribute loss of a cell of `anonymity` meets a target. Losses are in nats.

At each epsilon tried, the attackers' training and test texts are rewritten with fresh noise, and the attackers are
trained again. The attribute loss is the largest over attackers and attributes. Each epsilon tried gets a part of alpha
(`calibration/looks.py`), so with probability at least 1 - alpha all intervals are right. The search assumes that the
loss rises with epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.attributes.attackers import ADAPTIVE, AUGMENTED, FOLDED, RELABELLED, STATIC
from epsilometer.auditing.attributes.measuring import Attacking, attacker_rows
from epsilometer.auditing.calibration.computed import Met, advice, meet
from epsilometer.auditing.calibration.looks import Look, Looks, Turn
from epsilometer.auditing.calibration.sampled import ATTRIBUTE, FALLING, FOUND, OUTSIDE, Goal
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.cells.calibrating.losses import Search
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.project.cells import build
from epsilometer.runtime.progress import now_and_then
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, to_anonymize
from epsilometer.studies.anonymity.params import AnonymityCell, AnonymityParams
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.victims import attackers_of, released, trained, victims

ATTACKERS = (STATIC, RELABELLED, ADAPTIVE, AUGMENTED, FOLDED)  # the attackers that read one released text at a time


def calibrate(
    params: AnonymityParams, target: float, search: Search, mechanisms: Sequence[str], datasets: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Search for the epsilon of each cell with `part: test`, and yield a row per cell.

    mechanisms, datasets: names that restrict the cells; empty for all cells.
    Raises UserError if params.yaml has no such cell.
    """
    cells = [cell for cell in params.anonymity.values() if cell.part == "test"]
    if not cells:
        raise UserError(
            "params.yaml has no cell under anonymity with part: test; add the cell to calibrate", "EPS-P004"
        )
    for cell in cells:
        if (not mechanisms or cell.mechanism in mechanisms) and (not datasets or cell.dataset in datasets):
            of = {"dataset": cell.dataset, "mechanism": cell.mechanism, "target": target, "sees": search.sees}
            yield row(of, params, cell, partial(search.goal, target))


def row(
    of: Mapping[str, Any], params: AnonymityParams, cell: AnonymityCell, goal: Callable[[float, float], Goal]
) -> dict[str, Any]:
    """Search for a cell's epsilon, and return a row of `calibrate` that begins with the columns of `of`.

    goal: a function of the cell's smallest and largest epsilon. It returns the goal of the search: the target loss, the
    width of the result and the number of rewrites allowed.
    """
    by = {"by": ATTRIBUTE, "attacks": None}  # the column `attacks` is empty: all rows have the same attackers
    say, label = now_and_then(), f"{cell.mechanism} on {cell.dataset}"
    try:
        if cell.epsilons is None:
            raise UserError(f"{cell.mechanism} has no privacy budget to calibrate; audit it instead", "EPS-S009")
        wanted = goal(min(cell.epsilons), max(cell.epsilons))
        looks = Looks(AttributeLoss(params, cell, wanted), wanted.target, wanted.budget, params.audit.alpha)
        met = meet(
            looks,
            wanted.target,
            wanted.low,
            wanted.high,
            width=wanted.width,
            watch=lambda low, high: say(f"{label}: epsilon between {low:.3g} and {high:.3g}"),
        )
    except UserError as error:
        nothing = {"epsilon": None, "low": None, "high": None, "trials": 0, **by}
        return {**of, "status": "not searched", **nothing, "reason": str(error)}
    outcome = {"epsilon": met.best, "low": met.low, "high": met.high, "trials": looks.spent, **by}
    return {**of, "status": met.status, **outcome, "reason": reason(met, looks.spent)}


class AttributeLoss:
    """Measurement of a cell's attribute loss at an epsilon, as a lower and an upper bound in nats."""

    def __init__(self, params: AnonymityParams, cell: AnonymityCell, goal: Goal) -> None:
        """Prepare texts and victims. Raises UserError if the allowed rewrites do not cover both ends of the range."""
        self._params, self._cell = params, cell
        self._mechanism = build(params, cell)
        self._attributes = params.classification.labels[cell.dataset].attributes
        settings = params.classification
        sizes, least = settings.texts.anonymized, settings.training.batch
        table = parted(params, cell.dataset)
        self._rows = to_anonymize(table, self._attributes, sizes, params.audit.seed, least=least)
        self._static = {label: victims(params, cell.dataset, label) for label in self._attributes}
        if 2 * len(self._rows) > goal.budget:
            raise UserError(
                f"each epsilon takes {len(self._rows)} rewrites, so the two ends of the range take "
                f"{2 * len(self._rows)}, more than `budget` (--budget), {goal.budget}; raise it, or lower "
                "classification.texts",
                "EPS-S010",
            )

    def __call__(self, epsilon: float, turn: Turn) -> Look | None:
        """Return bounds at an epsilon, in nats; None if the epsilon is not new, or if too few rewrites are left."""
        if turn.again or turn.left < len(self._rows):
            return None
        params, cell = self._params, self._cell
        stream = (params.audit.seed, params.audit.round, "calibrate attribute", cell.dataset, cell.mechanism, epsilon)
        noise = Noise.named(self._rows["row"].to_numpy(), *stream)
        job = Job(self._rows["text"].to_list(), np.arange(len(self._rows)), [epsilon], [noise])
        (rewrites,) = rewrite_all(self._mechanism, job)
        table = self._rows.with_columns(rewrite=pl.Series(list(rewrites.texts), dtype=pl.String))
        rows = [self._strongest(label, table, turn.level / len(self._attributes)) for label in self._attributes]
        return Look(max(row["loss"] for row in rows), max(row["upper"] for row in rows), len(self._rows))

    def _strongest(self, label: str, table: pl.DataFrame, level: float) -> dict[str, Any]:
        """Return the row of the strongest attacker of an attribute."""
        params, dataset = self._params, self._cell.dataset
        training, test = (released(params, dataset, table.filter(split=split)) for split in (TRAIN, TEST))
        attacking = attackers_of(params)
        rows = attacker_rows(
            training,
            test,
            label,
            [learned for learned in self._static[label] if (learned.classifier.kind, learned.seed) in attacking],
            train=partial(trained, params, dataset, label),
            settings=Attacking(ATTACKERS, alpha=level, seed=params.audit.seed),
        )
        return next(row for row in rows if row["attacker"] == STRONGEST)


def reason(met: Met, spent: int) -> str | None:
    """Return why no epsilon was found, or advice on the epsilon found; None if there is neither."""
    if met.status in (OUTSIDE, FALLING):
        ends = (min(met.figures), max(met.figures))
        said = (f"{met.figures[at][0]:.3g} to {met.figures[at][1]:.3g} at epsilon {at:g}" for at in ends)
        return advice(met, "the attribute loss", *said)
    return None if met.status == FOUND else f"{spent} rewrites did not suffice to decide; test on more texts"
