"""Which of two mechanisms leaks less: by the guesses of a project's last audit, or on texts of one's own.

Both were attacked on the same trials. Losses are in nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
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
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.auditing.trials.unread import say_language
from epsilometer.core import tables
from epsilometer.core.attack import Attack, Context, guesses_of
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons
from epsilometer.core.mechanism import Mechanism, has_budget
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import inside
from epsilometer.studies.texts.params import TextsParams, read

_NO_BUDGET = "has no privacy budget at which it could be compared; audit it beside the others instead"

At = tuple[Named, float]
"""A mechanism at an epsilon."""


def compare(
    source: Sequence[str] | str | Path, first: At, second: At, *, trials: int = 2000, design: Design = STANDARD
) -> pl.DataFrame:
    """Compare how much two mechanisms leak, on the same trials: McNemar's exact test, with Holm's correction.

    source: the texts, or the folder of a project with an audit, whose guesses are compared. first, second: a mechanism,
    as in `epsilometer.audit`, and its epsilon: `("tem", 11)`; of a project by name. trials, design: on texts; of a
    project those of its params.yaml.
    Returns a row for the strongest of the attacks on both, and one for each of these (of a project for each data set):
    dataset, attack, attacks (those compared), trials, `first only` and `second only` (trials in which the adversary was
    right about the one alone), `p value`, `p Holm` and the `finding` in words, all of which hold at once at level
    alpha; and of each what its surest guesses prove of delta at 4 nats (`first delta at 4`, `second delta at 4`; null
    where not testable), which an average does not show. Last a row for each attack on one of the two alone, with its
    loss in the `finding`, and without a comparison.
    Raises UserError for an epsilon that was not audited, and for values outside their range.
    """
    if isinstance(source, (str, Path)):
        if design != STANDARD or not (isinstance(first[0], str) and isinstance(second[0], str)):
            raise UserError("a project has its design in params.yaml, and its mechanisms by name")
        with inside(source):
            params = read()
            rows = compare_cells(params, (first[0], first[1]), (second[0], second[1]), params.audit.alpha)
    else:
        rows = compare_texts(source, first, second, trials, design=design)
    return pl.DataFrame(rows)


def compare_cells(
    params: TextsParams, first: tuple[str, float], second: tuple[str, float], alpha: float
) -> list[dict[str, Any]]:
    """The rows of `compare`, from the guesses of the last audit.

    first, second: a mechanism and its epsilon. Attacks that see more than is released are left out.
    Holm's correction is over all rows that compare.
    """
    rows, alone, names = [], [], (_label(first), _label(second))
    estimates = tables.read("data/estimates.parquet", ESTIMATES)
    for dataset in params.datasets:
        cells = [params.cells.get(f"{dataset}-{name}") for name, _ in (first, second)]
        if None in cells:
            continue
        target = tables.read(f"data/trials/{dataset}.parquet", TRIALS)["target"]
        guessed: list[Mapping[str, Scored]] = []
        for name, epsilon in (first, second):
            if params.cells[f"{dataset}-{name}"].epsilons is None:
                raise UserError(f"{name} {_NO_BUDGET}")
            guesses = tables.read(f"data/guesses/{dataset}-{name}.parquet", GUESSES)
            at_epsilon = guesses.filter(epsilon=epsilon)
            if at_epsilon.is_empty():
                epsilons = ", ".join(f"{e:g}" for e in guesses["epsilon"].unique().sort())
                raise UserError(f"{name} was not audited at epsilon {epsilon:g} on {dataset}; it was at {epsilons}")
            by_attack = {a: _scored(p.sort("trial"), target) for (a,), p in at_epsilon.group_by("attack")}
            released = estimates.filter(pl.col("released"), dataset=dataset, mechanism=name, epsilon=epsilon)["attack"]
            guessed.append({attack: by_attack[attack] for attack in released if attack in by_attack})
        rows += _paired(dataset, guessed, params.trials.candidates, alpha)
        alone += _alone(dataset, guessed, names, params.trials.candidates, alpha=alpha)
    if not rows + alone:
        raise UserError(f"no data set has both {first[0]} and {second[0]}; see cells in params.yaml")
    return judged(rows, *names, alpha) + alone


def compare_texts(
    texts: Sequence[str],
    first: At,
    second: At,
    trials: int = 2000,
    design: Design = STANDARD,
    name: str = "texts",
) -> list[dict[str, Any]]:
    """The same on texts of one's own: both rewrite the same sources of the same trials; `name`: of the texts."""
    texts, attacks, k = api.distinct(texts), api.chosen_attacks(None), design.k
    check_epsilons([first[1]])
    check_epsilons([second[1]])
    sides = [(api.as_mechanism(mechanism, None, texts), float(epsilon)) for mechanism, epsilon in (first, second)]
    named = [(api.label(mechanism), epsilon) for mechanism, epsilon in (first, second)]
    for (mechanism, _), (label, _) in zip(sides, named, strict=True):
        if not has_budget(mechanism):
            raise UserError(f"{label} {_NO_BUDGET}")
    say_language(texts, {**attacks, **{label: built for (built, _), (label, _) in zip(sides, named, strict=True)}})
    sampled, embedded = api.draw(texts, trials, as_installed(design))
    guessed = [_guessed(api.Pool(texts, embedded), sampled, at, attacks, design=design) for at in sides]
    names = (_label(named[0]), _label(named[1]))
    rows = judged(_paired(name, guessed, k, design.alpha), *names, design.alpha)
    return rows + _alone(name, guessed, names, k, alpha=design.alpha)


def _scored(guesses: pl.DataFrame, target: pl.Series) -> Scored:
    """The guesses of one attack, in the order of the trials."""
    scores = None if guesses["score"].has_nulls() else guesses["score"].to_numpy()
    return Scored((guesses["guess"] == target).to_numpy(), scores)


def _guessed(
    pool: api.Pool, sampled: Trials, at: tuple[Mechanism, float], attacks: Mapping[str, Attack], design: Design
) -> Mapping[str, Scored]:
    """Whether each attack that sees what is released names the source, by trial, and how sure it is."""
    mechanism, epsilon = at
    trials = len(sampled.target)
    noise = Noise.named(trials, design.seed, "rewrite", epsilon)
    (rewrites,) = rewrite_all(mechanism, Job(pool.texts, sampled.source, [epsilon], [noise]))
    able = api.seeing(api.applicable(attacks, mechanism), mechanism, "released")

    def context(name: str, epsilon: float) -> Context:
        noise = Noise.named(trials, design.seed, "attack", name, epsilon)
        return Context(pool.texts, mechanism, epsilon, noise, embedded=pool.embedded)

    every = guesses_of(able, {epsilon: rewrites}, sampled.candidates, context)
    return {name: Scored(guesses.slots == sampled.target, guesses.scores) for name, (guesses,) in every}


def _paired(
    dataset: str, guessed: Sequence[Mapping[str, Scored]], candidates: int, alpha: float
) -> list[dict[str, Any]]:
    """The rows of one data set that compare, with what the surest guesses of the compared attacks prove."""
    first, second = guessed

    def tail(side: Mapping[str, Scored], attack: str) -> float | None:
        names = [name for name in first if name in second] if attack == STRONGEST else [attack]
        return lower_end([side[name] for name in names], candidates, alpha)

    return [
        row
        | {f"{which} delta at 4": tail(side, row["attack"]) for which, side in (("first", first), ("second", second))}
        for row in paired_rows(dataset, _right(first), _right(second))
    ]


def _alone(
    dataset: str, sides: Sequence[Mapping[str, Scored]], names: Sequence[str], candidates: int, *, alpha: float
) -> list[dict[str, Any]]:
    """The rows of one data set about attacks on one side alone."""
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


def _label(side: tuple[str, float]) -> str:
    return f"{side[0]}={side[1]:g}"
