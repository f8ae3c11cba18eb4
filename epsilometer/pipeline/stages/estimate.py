"""Stage estimate: the empirical privacy loss for every data set, mechanism, epsilon and attack, next to the claim.

The stage also writes checks of the audit: an audit with a known loss, statistics of outputs, and other estimators.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.auditing.claims.stated import read as read_stated
from epsilometer.auditing.results.estimates import Attacked, estimates
from epsilometer.auditing.schemas import ESTIMATES, GUESSES, REWRITES
from epsilometer.cells.adversaries import attacks
from epsilometer.cells.diagnosing import SCHEMAS, diagnosed, known_losses
from epsilometer.cells.params import TextsParams
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import trials
from epsilometer.cells.tables import rewrites_path, stated_path
from epsilometer.core import tables
from epsilometer.core.attack import Guesses, is_validated
from epsilometer.core.guarantees import restored, stored
from epsilometer.project.paths import audited


def main() -> None:
    """Write data/estimates.parquet, instrument.parquet, outputs.parquet, estimators.parquet and disagreements.parquet.

    The mechanisms of cells are not built.
    """
    params = read_params()
    control = params.instrument
    table = known_losses(control.epsilons, control.trials, params.audit.alpha, params.audit.seed)
    tables.write(table, "data/instrument.parquet", {})
    rows = estimates((attacked for name in params.cells for attacked in _attacked(params, name)), params.audit.alpha)
    tables.write(pl.DataFrame(rows, schema=dict(ESTIMATES)), "data/estimates.parquet", ESTIMATES)
    for name, table in diagnosed(params).items():
        tables.write(table, f"data/{name}.parquet", SCHEMAS[name])


def _attacked(params: TextsParams, name: str) -> Iterator[Attacked]:
    """Yield the guesses on a cell at each epsilon, with attacks in the order of params.yaml."""
    cell, chosen = params.cells[name], attacks(params)
    cell_trials, statements = trials(cell.dataset), read_stated(stated_path(name))
    guesses = tables.read(f"data/guesses/{name}.parquet", GUESSES)
    for (epsilon,), table in guesses.group_by("epsilon", maintain_order=True):
        budget = restored(epsilon)
        by_attack = {str(attack): part for (attack,), part in table.sort("trial").group_by("attack")}
        parts = {attack: by_attack[attack] for attack in chosen if attack in by_attack}
        yield Attacked(
            of={"dataset": cell.dataset, "mechanism": cell.mechanism},
            epsilon=budget,
            stated=statements[stored(budget)],
            trials=cell_trials,
            words=audited(params, cell.dataset)["words"].to_numpy(),
            claims=tables.read(rewrites_path(name, budget), REWRITES).sort("trial")["claim"].to_numpy(),
            guesses={attack: _guesses(part) for attack, part in parts.items()},
            sees={attack: part["sees"][0] for attack, part in parts.items()},
            validated={attack: is_validated(chosen[attack], cell_trials.candidates.shape[1]) for attack in parts},
        )


def _guesses(part: pl.DataFrame) -> Guesses:
    scores, posteriors = (None if part[name].has_nulls() else part[name].to_numpy() for name in ("score", "posterior"))
    return Guesses(part["guess"].to_numpy(), scores, posteriors)
