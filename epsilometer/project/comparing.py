"""Which of two mechanisms leaks less: by the guesses of a project's last audit, or on texts of one's own.

Both were attacked on the same trials. Losses are in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from epsilometer.auditing import one_call as api
from epsilometer.auditing.comparison import Right, judged, paired_rows
from epsilometer.auditing.diagnostics import STRONGEST
from epsilometer.auditing.rewriting import Job, rewrite_all
from epsilometer.core import tables
from epsilometer.core.attack import Context, guess_all
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import has_budget
from epsilometer.core.randomness import Noise
from epsilometer.project.params import Params
from epsilometer.runtime.progress import note

_NO_BUDGET = "has no privacy budget at which it could be compared; audit it beside the others instead"


def compare_cells(
    params: Params, first: tuple[str, float], second: tuple[str, float], alpha: float
) -> list[dict[str, Any]]:
    """A row a data set and attack on both, and one for the strongest attacks, from the guesses of the last audit.

    first, second: a mechanism and its epsilon. Attacks that see more than is released are left out.
    Holm's correction is over all rows.
    """
    rows = []
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    for dataset in params.datasets:
        cells = [params.cells.get(f"{dataset}-{name}") for name, _ in (first, second)]
        if None in cells:
            continue
        target = tables.read(f"data/trials/{dataset}.parquet", tables.TRIALS)["target"]
        right = []
        for name, epsilon in (first, second):
            if params.cells[f"{dataset}-{name}"].epsilons is None:
                raise UserError(f"{name} {_NO_BUDGET}")
            guesses = tables.read(f"data/guesses/{dataset}-{name}.parquet", tables.GUESSES)
            found = guesses.filter(epsilon=epsilon)
            if found.is_empty():
                known = ", ".join(f"{e:g}" for e in guesses["epsilon"].unique().sort())
                raise UserError(f"{name} was not audited at epsilon {epsilon:g} on {dataset}; it was at {known}")
            by_attack = {a: (p.sort("trial")["guess"] == target).to_numpy() for (a,), p in found.group_by("attack")}
            released = estimates.filter(pl.col("released"), dataset=dataset, mechanism=name, epsilon=epsilon)["attack"]
            right.append({attack: by_attack[attack] for attack in released if attack in by_attack})
        rows += _paired(dataset, first, second, right[0], right[1])
    if not rows:
        raise UserError(f"no data set has both {first[0]} and {second[0]}; see cells in params.yaml")
    return judged(rows, _label(first), _label(second), alpha)


def compare_texts(
    name: str,
    texts: Sequence[str],
    first: tuple[str, float],
    second: tuple[str, float],
    trials: int = 2000,
    alpha: float = 0.01,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """The same on texts of one's own: both rewrite the same sources of the same trials; `name`: of the texts."""
    texts, attacks = api.distinct(texts), api.chosen_attacks(None)
    made = [api.as_mechanism(one, None, texts) for one, _ in (first, second)]
    for mechanism, (label, _) in zip(made, (first, second), strict=True):
        if not has_budget(mechanism):
            raise UserError(f"{label} {_NO_BUDGET}")
    drawn, embedded = api.draw(texts, trials, 2, -10_000, seed)
    right = []
    for mechanism, (_, epsilon) in zip(made, (first, second), strict=True):
        rewrites = rewrite_all(
            mechanism, Job(texts, drawn.source, [epsilon], [Noise.named(trials, seed, "rewrite", epsilon)])
        )
        right.append(
            {
                label: guess_all(
                    attack,
                    rewrites,
                    drawn.candidates,
                    [Context(texts, mechanism, epsilon, Noise.named(trials, seed, "attack", label, epsilon), embedded)],
                )[0]
                == drawn.target
                for label, attack in api.seeing(api.applicable(attacks, mechanism), mechanism, "released").items()
            }
        )
    return judged(_paired(name, first, second, right[0], right[1]), _label(first), _label(second), alpha)


def _paired(
    dataset: str, first: tuple[str, float], second: tuple[str, float], one: Right, other: Right
) -> list[dict[str, Any]]:
    """The rows of one data set; what attacked one side alone is said."""
    for side, mine, theirs in ((first, one, other), (second, other, one)):
        alone = [attack for attack in mine if attack not in theirs]
        if alone:
            note(f"on {dataset} {', '.join(alone)} attacked {side[0]} alone, and counts in the row {STRONGEST} only")
    return paired_rows(dataset, one, other)


def _label(side: tuple[str, float]) -> str:
    return f"{side[0]}={side[1]:g}"
