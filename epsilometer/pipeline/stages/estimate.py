"""Stage estimate: the empirical privacy loss of every data set, mechanism, epsilon and attack, beside its claim."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.auditing.estimates import judge, rows
from epsilometer.core import tables
from epsilometer.core.guarantees import restored
from epsilometer.pipeline.stages.shared.adversaries import attacks
from epsilometer.project.cells import mechanism, trials
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import audited, rewrites_path


def main() -> None:
    """Write data/estimates.parquet."""
    params = read_params()
    found = judge([row for name in params.cells for row in _rows(params, name)], params.audit.alpha)
    tables.write(pl.DataFrame(found, schema=dict(tables.ESTIMATES)), "data/estimates.parquet", tables.ESTIMATES)


def _rows(params: Params, name: str) -> list[dict[str, Any]]:
    """The rows of a cell, still without a verdict."""
    cell, known = params.cells[name], attacks(params)
    built, drawn = mechanism(params, name), trials(cell.dataset)
    words = audited(params, cell.dataset)["words"].to_numpy()
    guesses = tables.read(f"data/guesses/{name}.parquet", tables.GUESSES)
    found = []
    for (epsilon,), table in guesses.group_by("epsilon", maintain_order=True):
        budget = restored(epsilon)
        by_attack = table.sort("trial").group_by("attack", maintain_order=True)
        slots = {str(attack): part["guess"].to_numpy() for (attack,), part in by_attack}
        in_order = {attack: slots[attack] for attack in known if attack in slots}
        claims = tables.read(rewrites_path(name, budget), tables.REWRITES).sort("trial")["claim"].to_numpy()
        where = {"dataset": cell.dataset, "mechanism": cell.mechanism}
        made = rows(in_order, known, drawn, words, built, budget, claims, params.audit.alpha)
        found += [where | row for row in made]
    return found
