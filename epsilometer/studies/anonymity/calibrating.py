"""The epsilon at which the attribute loss of a mechanism meets a target, in the cells of `anonymity`, in nats.

At each epsilon tried, training and test texts of the attackers are rewritten with fresh noise and the attackers are
trained again. The loss is that of the strongest attacker, of the attribute that loses most. Each epsilon tried has a
level of its own (`calibration/looks.py`), so all intervals hold together with probability at least 1 - alpha. Like
every search, it assumes that the loss rises with epsilon.
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

ATTACKERS = (STATIC, RELABELLED, ADAPTIVE, AUGMENTED, FOLDED)  # those that read one released text


def calibrate(
    params: AnonymityParams, target: float, search: Search, mechanisms: Sequence[str], datasets: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row per cell of these mechanisms and data sets whose attackers read test texts; without names, of all.

    Raises UserError if params.yaml lacks the cell.
    """
    cells = [cell for cell in params.anonymity.values() if cell.part == "test"]
    if not cells:
        raise UserError(
            "no cell is measured by its attribute loss; name one under anonymity in params.yaml", "EPS-P004"
        )
    for cell in cells:
        if (not mechanisms or cell.mechanism in mechanisms) and (not datasets or cell.dataset in datasets):
            of = {"dataset": cell.dataset, "mechanism": cell.mechanism, "target": target, "sees": search.sees}
            yield row(of, params, cell, partial(search.goal, target))


def row(
    of: Mapping[str, Any], params: AnonymityParams, cell: AnonymityCell, goal: Callable[[float, float], Goal]
) -> dict[str, Any]:
    """Return a row as `calibrating.calibrate` does, with the columns of `of`.

    goal: of the ends of the cell's epsilons: the target loss, its width and the budget of rewrites.
    """
    by = {"by": ATTRIBUTE, "attacks": None}  # all rows have the same attackers
    say, label = now_and_then(), f"{cell.mechanism} on {cell.dataset}"
    try:
        if cell.epsilons is None:
            raise UserError(
                f"{cell.mechanism} has no privacy budget, so there is none to calibrate; audit it instead", "EPS-S009"
            )
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
    """Looks at the attribute loss, as the two ends of its interval."""

    def __init__(self, params: AnonymityParams, cell: AnonymityCell, goal: Goal) -> None:
        """Raise UserError for a budget that does not cover both ends of the range."""
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
                f"at each epsilon {len(self._rows)} texts are rewritten, so that both ends take "
                f"{2 * len(self._rows)} rewrites; raise `budget` (--budget), {goal.budget}, or lower "
                "classification.texts",
                "EPS-S010",
            )

    def __call__(self, epsilon: float, turn: Turn) -> Look | None:
        """Return the ends of the interval, in nats; None for a second look, and where too few rewrites are left."""
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
    """Return the reason for a missing epsilon, or advice on a found one; None if there is nothing to say."""
    if met.status in (OUTSIDE, FALLING):
        ends = (min(met.figures), max(met.figures))
        said = (f"{met.figures[at][0]:.3g} to {met.figures[at][1]:.3g} at epsilon {at:g}" for at in ends)
        return advice(met, "the attribute loss", *said)
    return None if met.status == FOUND else f"{spent} rewrites did not decide; test on more texts"
