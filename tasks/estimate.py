"""Stage estimate: the empirical privacy loss of every data set, mechanism, epsilon and attack, beside its claim.

usage: python -m tasks.estimate
"""

from __future__ import annotations

import polars as pl

from epsilometer import tables
from epsilometer.claims import NO_CLAIM, describe, expected_successes, p_value, verdict
from epsilometer.estimation import estimate
from epsilometer.params import read as read_params
from tasks.cells import mechanism, trials
from tasks.entry import run
from tasks.files import rewrites_path


def main() -> None:
    """Write data/estimates.parquet."""
    params = read_params()
    rows = []
    for name, cell in params.cells.items():
        built, target = mechanism(params, name), trials(cell.dataset).target
        guesses = tables.read(f"data/guesses/{name}.parquet", tables.GUESSES)
        for (epsilon, attack), part in guesses.group_by("epsilon", "attack", maintain_order=True):
            guarantee = built.guarantee(epsilon)
            delta = guarantee.delta if guarantee else 0.0
            successes = int((part.sort("trial")["guess"].to_numpy() == target).sum())
            found = estimate(successes, len(part), params.trials.candidates, params.audit.alpha)
            expected = None
            if guarantee:
                claims = tables.read(rewrites_path(name, epsilon), tables.REWRITES)["claim"]
                expected = expected_successes(claims.to_numpy(), params.trials.candidates, delta)
            rows.append(
                {
                    "dataset": cell.dataset,
                    "mechanism": cell.mechanism,
                    "epsilon": epsilon,
                    "attack": attack,
                    "trials": found.trials,
                    "candidates": found.candidates,
                    "successes": found.successes,
                    "success_rate": found.success_rate,
                    "loss": found.loss,
                    "point": found.point,
                    "upper": found.upper,
                    "ceiling": found.ceiling,
                    "claim": describe(guarantee),
                    "expected": expected,
                    "p_value": None if expected is None else p_value(successes, found.trials, expected),
                }
            )
    judged = sum(row["p_value"] is not None for row in rows)
    for row in rows:
        p = row["p_value"]
        row["verdict"] = NO_CLAIM if p is None else verdict(p, params.audit.alpha, judged)
    tables.write(pl.DataFrame(rows, schema=dict(tables.ESTIMATES)), "data/estimates.parquet", tables.ESTIMATES)


if __name__ == "__main__":
    run(main)
