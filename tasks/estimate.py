"""Stage estimate: the empirical privacy loss of every data set, mechanism, epsilon and attack, beside its claim.

The attack called `strongest` is the best of the others at its corrected level.

usage: python -m tasks.estimate
"""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer import tables
from epsilometer.claims import NO_CLAIM, describe, expected_successes, p_value, verdict
from epsilometer.diagnostics import STRONGEST
from epsilometer.estimation import Estimate, estimate, strongest
from epsilometer.params import Params
from epsilometer.params import read as read_params
from tasks.cells import mechanism, trials
from tasks.entry import run
from tasks.files import rewrites_path


def main() -> None:
    """Write data/estimates.parquet."""
    params = read_params()
    rows = [row for name in params.cells for row in _estimates(params, name)]
    judged = sum(row["p_value"] is not None and row["attack"] != STRONGEST for row in rows)
    for row in rows:
        p = row["p_value"]
        row["verdict"] = NO_CLAIM if p is None else verdict(p, params.audit.alpha, judged)
    tables.write(pl.DataFrame(rows, schema=dict(tables.ESTIMATES)), "data/estimates.parquet", tables.ESTIMATES)


def _estimates(params: Params, name: str) -> list[dict[str, Any]]:
    """The rows of a cell, still without a verdict."""
    cell, rows = params.cells[name], []
    built, target = mechanism(params, name), trials(cell.dataset).target
    guesses = tables.read(f"data/guesses/{name}.parquet", tables.GUESSES)
    for (epsilon,), made in guesses.group_by("epsilon", maintain_order=True):
        guarantee = built.guarantee(epsilon)
        expected = None
        if guarantee:
            claims = tables.read(rewrites_path(name, epsilon), tables.REWRITES)["claim"]
            expected = expected_successes(claims.to_numpy(), params.trials.candidates, guarantee.delta)
        found: dict[str, Estimate] = {}
        for (attack,), part in made.group_by("attack", maintain_order=True):
            successes = int((part.sort("trial")["guess"].to_numpy() == target).sum())
            found[attack] = estimate(successes, len(part), params.trials.candidates, params.audit.alpha)
        # The verdict on the strongest attack repeats that on the best of the others, so it is no further test.
        for attack, one in [*found.items(), (STRONGEST, strongest(list(found.values())))]:
            rows.append(
                {
                    "dataset": cell.dataset,
                    "mechanism": cell.mechanism,
                    "epsilon": epsilon,
                    "attack": attack,
                    "trials": one.trials,
                    "candidates": one.candidates,
                    "successes": one.successes,
                    "success_rate": one.success_rate,
                    "loss": one.loss,
                    "point": one.point,
                    "upper": one.upper,
                    "ceiling": one.ceiling,
                    "claim": describe(guarantee),
                    "expected": expected,
                    "p_value": None if expected is None else p_value(one.successes, one.trials, expected),
                }
            )
    return rows


if __name__ == "__main__":
    run(main)
