"""Stage attack@cell: which slot each adversary names, for every trial and epsilon of a cell.

usage: python -m tasks.attack CELL
"""

from __future__ import annotations

import numpy as np
import polars as pl

from epsilometer import tables
from epsilometer.attack import Context, Embedded, HasTally, Selective, guess_all
from epsilometer.component import build, find
from epsilometer.params import read as read_params
from epsilometer.randomness import Noise
from tasks.cells import mechanism, rewrites, trials
from tasks.entry import run
from tasks.files import audited_texts


def main(name: str) -> None:
    """Write data/guesses/<cell>.parquet, and what the attacks counted while guessing beside it."""
    params = read_params()
    cell = params.cells[name]
    drawn, texts = trials(cell.dataset), audited_texts(params, cell.dataset)
    built = mechanism(params, name)
    vectors = np.load(f"data/embeddings/{cell.dataset}.npy", allow_pickle=False)
    embedded = Embedded(params.embedding.model, params.embedding.precision, vectors)
    made = [rewrites(name, epsilon)[0] for epsilon in cell.epsilons]
    public = params.datasets[cell.dataset].public
    tallies: list[dict[str, str | float]] = []
    with tables.Writer(f"data/guesses/{name}.parquet", tables.GUESSES) as writer:
        for attack_name in params.attacks:
            attack = build(find("attacks", attack_name, "guess"), params.attacks[attack_name], f"attacks.{attack_name}")
            if isinstance(attack, Selective) and not attack.applies(built):
                continue
            stream = (params.audit.seed, params.audit.round, "attack", attack_name, cell.dataset, cell.mechanism)
            contexts = [
                Context(texts, built, epsilon, Noise.named(len(drawn.target), *stream, epsilon), embedded, public)
                for epsilon in cell.epsilons
            ]
            guesses = guess_all(attack, made, drawn.candidates, contexts)
            for epsilon, guess in zip(cell.epsilons, guesses, strict=True):
                rows = {"epsilon": epsilon, "attack": attack_name, "trial": np.arange(len(guess)), "guess": guess}
                writer.write(pl.DataFrame(rows))
                if isinstance(attack, HasTally):
                    tallies.append({"attack": attack_name, "epsilon": epsilon, **attack.tally(epsilon)})
    tables.write_json(tallies, f"data/guesses/{name}.json")


if __name__ == "__main__":
    run(main)
