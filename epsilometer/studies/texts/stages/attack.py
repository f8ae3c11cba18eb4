"""Stage attack@cell: which slot each adversary names, for every trial and epsilon of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import GUESSES
from epsilometer.core import tables
from epsilometer.core.attack import SLOT, Attack, Context, Embedded, Guesses, HasTally, applies, guesses_of, sees
from epsilometer.core.guarantees import stored
from epsilometer.core.likelihood import computed
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import audited_texts
from epsilometer.runtime.scaling import run as run_slices
from epsilometer.runtime.scaling import slices
from epsilometer.studies.texts.adversaries import attacks
from epsilometer.studies.texts.cells import mechanism, rewrites, trials
from epsilometer.studies.texts.params import read as read_params

BLOCKS = 4  # blocks a slice: what an attack computes from the audited texts alone it computes anew in each


@dataclass(frozen=True)
class Guessed:
    """What the attacks made of some trials: by attack their guesses an epsilon, and what was counted meanwhile."""

    rows: NDArray[np.int64]
    guesses: dict[str, list[Guesses]]
    tallies: dict[str, list[dict[str, float]]]


def main(name: str) -> None:
    """Write data/guesses/<cell>.parquet, and what the attacks counted while guessing beside it."""
    params = read_params()
    cell, engine = params.cells[name], params.runtime.engine
    cell_trials = trials(cell.dataset)
    count = len(cell_trials.target)
    # Trials with the same candidates fall into one slice, so that equal questions are put once, however it is cut.
    parts = slices(cell_trials.candidates[:, 0], BLOCKS * params.runtime.block, engine.workers, whole=True)
    guesses: dict[str, list[Guesses]] = {}
    tallies: dict[str, list[dict[str, float]]] = {}
    for guessed in run_slices(partial(adversaries, name), [np.sort(part) for part in parts], engine, "attack"):
        for attack, named in guessed.guesses.items():
            if attack not in guesses:
                guesses[attack] = [_room(count, of_epsilon) for of_epsilon in named]
            for whole, block in zip(guesses[attack], named, strict=True):
                whole.slots[guessed.rows] = block.slots
                if whole.scores is not None:
                    whole.scores[guessed.rows] = block.scores
                if whole.posteriors is not None:
                    whole.posteriors[guessed.rows] = block.posteriors
        for attack, counted in guessed.tallies.items():
            tallies[attack] = _added(tallies.get(attack, [{} for _ in counted]), counted, 1)
    built, chosen = mechanism(params, name), attacks(params)
    seen = {attack: sees(chosen[attack], built) for attack in guesses}
    with tables.Writer(f"data/guesses/{name}.parquet", GUESSES) as writer:
        for attack, all_of in guesses.items():
            for epsilon, guess in zip(cell.budgets, all_of, strict=True):
                looked = {"epsilon": epsilon, "attack": attack, "sees": seen[attack]}
                numbers = {"guess": guess.slots, "score": guess.scores, "posterior": guess.posteriors}
                writer.write(pl.DataFrame({**looked, "trial": np.arange(count), **numbers}, schema_overrides=GUESSES))
    records = [
        {"attack": attack, "epsilon": stored(epsilon)} | {what: round(number, 9) for what, number in tally.items()}
        for attack, counted in tallies.items()
        for epsilon, tally in zip(cell.budgets, counted, strict=True)
    ]
    tables.write_json(records, f"data/guesses/{name}.json")


def adversaries(name: str) -> Callable[[NDArray[np.int64]], Guessed]:
    """All attacks that apply to a cell, their models loaded at first use: trials in ascending order to guesses."""
    params = read_params()
    cell = params.cells[name]
    cell_trials, texts = trials(cell.dataset), audited_texts(params, cell.dataset)
    built = mechanism(params, name)
    vectors = np.load(f"data/embeddings/{cell.dataset}.npy", allow_pickle=False)
    embedded = Embedded(params.embedding.model, params.embedding.precision, vectors)
    public = params.datasets[cell.dataset].public
    applicable = {
        attack: attack_built for attack, attack_built in attacks(params).items() if applies(attack_built, built)
    }

    def guess(rows: NDArray[np.int64]) -> Guessed:
        cell_rewrites = {epsilon: rewrites(name, epsilon, rows)[0] for epsilon in cell.budgets}
        guessed, candidates = Guessed(rows, {}, {}), cell_trials.candidates[rows]
        each = list(cell_rewrites.values())
        likelihoods = computed(built, texts, candidates, each, epsilons=cell.budgets)
        table = dict(zip(cell_rewrites, likelihoods, strict=True))

        def context(attack: str, epsilon: float) -> Context:
            stream = (params.audit.seed, params.audit.round, "attack", attack, cell.dataset, cell.mechanism, epsilon)
            on = Context(texts, built, epsilon, Noise.named(rows, *stream), embedded=embedded, public=public)
            return replace(on, log_likelihoods=table[epsilon])

        before = {attack: _tallies(applicable[attack], cell.budgets) for attack in applicable}
        for attack, guesses in guesses_of(applicable, cell_rewrites, candidates, context):
            guessed.guesses[attack] = guesses
            if isinstance(applicable[attack], HasTally):
                guessed.tallies[attack] = _added(_tallies(applicable[attack], cell.budgets), before[attack], -1)
        return guessed

    return guess


def _room(count: int, like: Guesses) -> Guesses:
    scores, posteriors = (None if part is None else np.empty(count) for part in (like.scores, like.posteriors))
    return Guesses(np.empty(count, SLOT), scores, posteriors)


def _tallies(attack: Attack, epsilons: tuple[float, ...]) -> list[dict[str, float]]:
    return [dict(attack.tally(epsilon)) if isinstance(attack, HasTally) else {} for epsilon in epsilons]


def _added(to: list[dict[str, float]], more: list[dict[str, float]], sign: int) -> list[dict[str, float]]:
    """Sums of what was counted, epsilon by epsilon; names in the order in which they first appear."""
    return [
        {what: count.get(what, 0) + sign * other.get(what, 0) for what in {**count, **other}}
        for count, other in zip(to, more, strict=True)
    ]
