"""The comparison of two mechanisms' losses: from the guesses of a project's last audit, or on your own texts.

Attacks on both mechanisms use the same trials. Losses are in nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.estimation.tail import Scored, lower_end
from epsilometer.auditing.results.comparison import judged, lone_rows, paired_rows
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import ESTIMATES, GUESSES, TRIALS
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed, check_design
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.auditing.trials.unread import say_language
from epsilometer.cells.params import TextsParams
from epsilometer.core import tables
from epsilometer.core.attack import Attack
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget, budget_name
from epsilometer.core.mechanism import Mechanism, budgets, check_guarantees, has_budget
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play


def compare_cells(
    params: TextsParams, first: tuple[str, float | None], second: tuple[str, float | None], alpha: float
) -> list[dict[str, Any]]:
    """Return the rows of a comparison, from the guesses of the last audit.

    first, second: a mechanism and its epsilon, which is None for a mechanism without a privacy budget. Attacks that
    read more than the released views are left out. Holm's correction covers all rows that compare the two mechanisms.
    """
    rows, alone, names = [], [], labels(first, second)
    estimates = tables.read("data/estimates.parquet", ESTIMATES)
    for dataset in params.datasets:
        cells = [params.cells.get(f"{dataset}-{name}") for name, _ in (first, second)]
        if None in cells:
            continue
        target = tables.read(f"data/trials/{dataset}.parquet", TRIALS)["target"]
        guessed: list[Mapping[str, Scored]] = []
        for name, epsilon in (first, second):
            guesses = tables.read(f"data/guesses/{dataset}-{name}.parquet", GUESSES)
            at_epsilon = tables.at_epsilon(guesses, epsilon)
            if at_epsilon.is_empty():
                epsilons = ", ".join(map(budget_name, guesses["epsilon"].unique().sort()))
                at = at_budget(epsilon) or " without an epsilon"
                raise UserError(
                    f"{name} was not audited{at} on {dataset}; give one of its epsilons there ({epsilons})", "EPS-S067"
                )
            by_attack = {a: _scored(p.sort("trial"), target) for (a,), p in at_epsilon.group_by("attack")}
            of_side = tables.at_epsilon(estimates, epsilon).filter(dataset=dataset, mechanism=name)
            released = of_side.filter("released")["attack"]
            guessed.append({attack: by_attack[attack] for attack in released if attack in by_attack})
        rows += _paired(dataset, guessed, params.trials.candidates, alpha)
        alone += _alone(dataset, guessed, names, params.trials.candidates, alpha=alpha)
    if not rows + alone:
        raise UserError(f"no data set has both {first[0]} and {second[0]}; see cells in params.yaml", "EPS-S068")
    return judged(rows, *names, alpha) + alone


def compare_texts(
    texts: Sequence[str],
    first: tuple[Named, float | None],
    second: tuple[Named, float | None],
    trials: int = 2000,
    design: Design = STANDARD,
    name: str = "texts",
) -> list[dict[str, Any]]:
    """Return the rows of a comparison on your own texts: both mechanisms rewrite the sources of the same trials.

    name: the name of the texts in the rows.
    """
    check_design(design)
    texts, attacks, k = api.distinct(texts), api.chosen_attacks(None), design.k
    named = [(api.label(mechanism), epsilon) for mechanism, epsilon in (first, second)]
    mechanisms = [api.as_mechanism(mechanism, None, texts) for mechanism, _ in (first, second)]
    sides = [budgeted(mechanism, *of) for mechanism, of in zip(mechanisms, named, strict=True)]
    say_language(texts, {**attacks, **{label: built for (built, _), (label, _) in zip(sides, named, strict=True)}})
    sampled, embedded = api.draw(texts, trials, as_installed(design))
    guessed = [_guessed(api.Pool(texts, embedded), sampled, at, attacks, design=design) for at in sides]
    names = labels(*named)
    rows = judged(_paired(name, guessed, k, design.alpha), *names, design.alpha)
    return rows + _alone(name, guessed, names, k, alpha=design.alpha)


def budgeted(mechanism: Mechanism, name: str, epsilon: float | None) -> tuple[Mechanism, float]:
    """Return a mechanism and its budget. name: the mechanism's name, as the user gave it."""
    if epsilon is None and has_budget(mechanism):
        raise UserError(
            f'{name} needs an epsilon; write {name}=EPSILON, or in Python a pair, ("{name}", EPSILON)', "EPS-S069"
        )
    (at,) = budgets(mechanism, None if epsilon is None else [epsilon], f"the epsilon of {name}")
    check_guarantees(mechanism, [at])
    return mechanism, float(at)


def _scored(guesses: pl.DataFrame, target: pl.Series) -> Scored:
    """Return the guesses of one attack, in the order of the trials."""
    scores = None if guesses["score"].has_nulls() else guesses["score"].to_numpy()
    return Scored((guesses["guess"] == target).to_numpy(), scores)


def _guessed(
    pool: api.Pool, sampled: Trials, at: tuple[Mechanism, float], attacks: Mapping[str, Attack], design: Design
) -> Mapping[str, Scored]:
    """Return the outcome and the score of each trial, for each attack that reads only released views."""
    mechanism, epsilon = at
    trials = len(sampled.target)
    noise = Noise.named(trials, design.seed, "rewrite", epsilon)
    (rewrites,) = rewrite_all(mechanism, Job(pool.texts, sampled.source, [epsilon], [noise]))
    able = api.seeing(api.applicable(attacks, mechanism), mechanism, "released")
    played = play(
        Knowledge(pool.texts, sampled.candidates, mechanism, embedded=pool.embedded),
        {epsilon: rewrites},
        able,
        lambda attack, epsilon: Noise.named(trials, design.seed, "attack", attack, epsilon),
    )
    return {name: Scored(guesses.slots == sampled.target, guesses.scores) for name, guesses in played[epsilon].items()}


def _paired(
    dataset: str, guessed: Sequence[Mapping[str, Scored]], candidates: int, alpha: float
) -> list[dict[str, Any]]:
    """Return the paired rows of one data set, with the delta at 4 nats that the most confident guesses prove."""
    first, second = guessed

    def tail(side: Mapping[str, Scored], attack: str) -> float | None:
        names = [name for name in first if name in second] if attack == STRONGEST else [attack]
        return lower_end([side[name] for name in names], candidates, alpha)

    return [
        row
        | {f"{which} delta at 4": tail(side, row["attack"]) for which, side in (("first", first), ("second", second))}
        for row in paired_rows(dataset, _right(first), _right(second), candidates)
    ]


def _alone(
    dataset: str, sides: Sequence[Mapping[str, Scored]], names: Sequence[str], candidates: int, *, alpha: float
) -> list[dict[str, Any]]:
    """Return the rows of one data set for attacks that apply to only one of the two mechanisms."""
    return [
        row
        | {
            f"{which} delta at 4": lower_end([side[row["attack"]]], candidates, alpha)
            if row["attack"] in side
            else None
            for which, side in zip(("first", "second"), sides, strict=True)
        }
        for row in lone_rows(dataset, [_right(side) for side in sides], names, candidates, alpha=alpha)
    ]


def _right(side: Mapping[str, Scored]) -> dict[str, NDArray[np.bool_]]:
    return {attack: scored.right for attack, scored in side.items()}


def labels(first: tuple[str, float | None], second: tuple[str, float | None]) -> tuple[str, str]:
    """Return the two mechanisms' names for a finding, with "first" and "second" if name and epsilon are the same."""
    left, right = (name if epsilon is None else f"{name}={epsilon:g}" for name, epsilon in (first, second))
    return (f"first ({left})", f"second ({right})") if left == right else (left, right)
