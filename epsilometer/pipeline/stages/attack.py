"""Stage attack@cell: each adversary's guess, for every trial and epsilon of a cell."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import GUESSES
from epsilometer.cells import encoded
from epsilometer.cells.adversaries import attacks
from epsilometer.cells.guessing import added, adversaries
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import mechanism, trials
from epsilometer.core import tables
from epsilometer.core.attack import SLOT, Guesses, sees
from epsilometer.core.guarantees import stored
from epsilometer.runtime.scaling import run as run_slices
from epsilometer.runtime.scaling import slices

BLOCKS = 4  # blocks per slice: more blocks mean fewer slices, and every slice repeats the work per text


def main(name: str) -> None:
    """Write data/guesses/<cell>.parquet, the attacks' counters (.json), and data/encoded/<cell>.npz."""
    params = read_params()
    cell, engine = params.cells[name], params.runtime.engine
    cell_trials = trials(cell.dataset)
    count = len(cell_trials.target)
    # Trials with the same candidates are in one slice, so that equal questions to a model are asked only once.
    parts = slices(cell_trials.candidates[:, 0], BLOCKS * params.runtime.block, engine.workers, whole=True)
    guesses: dict[str, list[Guesses]] = {}
    tallies: dict[str, list[dict[str, float]]] = {}
    vectors: dict[str, NDArray[np.float32]] = {}
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
        vectors |= guessed.encoded
        for attack, counted in guessed.tallies.items():
            tallies[attack] = added(tallies.get(attack, [{} for _ in counted]), counted, 1)
    encoded.write(name, vectors)
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


def _room(count: int, like: Guesses) -> Guesses:
    scores, posteriors = (None if part is None else np.empty(count) for part in (like.scores, like.posteriors))
    return Guesses(np.empty(count, SLOT), scores, posteriors)
