"""The attacks' guesses on some trials of a cell, and the attacks' counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.cells.adversaries import attacks
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import rewrites, trials, well_read
from epsilometer.core.attack import Attack, Embedded, Encodes, Guesses, HasTally, applies
from epsilometer.core.likelihood import computed
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play
from epsilometer.project.paths import audited_texts


@dataclass(frozen=True)
class GuessedTrials:
    """The attacks' results on some trials.

    rows: the numbers of the trials.
    guesses: for each attack, its guesses at each epsilon.
    tallies: for each attack with counters, their counts on these trials at each epsilon.
    encoded: the vectors of rewrites, by text, that attacks computed with the audit's encoder.
    """

    rows: NDArray[np.int64]
    guesses: dict[str, list[Guesses]]
    tallies: dict[str, list[dict[str, float]]]
    encoded: dict[str, NDArray[np.float32]]


def adversaries(name: str) -> Callable[[NDArray[np.int64]], GuessedTrials]:
    """Return a function that attacks trials of a cell, given as ascending numbers. Models load at first use."""
    params = read_params()
    cell = params.cells[name]
    cell_trials, texts = trials(cell.dataset), audited_texts(params, cell.dataset)
    built = well_read(params, name)
    vectors = np.load(f"data/embeddings/{cell.dataset}.npy", allow_pickle=False)
    embedded = Embedded(params.embedding.model, params.embedding.precision, vectors)
    public = params.datasets[cell.dataset].public
    applicable = {
        attack: attack_built for attack, attack_built in attacks(params).items() if applies(attack_built, built)
    }

    def guess(rows: NDArray[np.int64]) -> GuessedTrials:
        cell_rewrites = {epsilon: rewrites(name, epsilon, rows)[0] for epsilon in cell.budgets}
        candidates, each = cell_trials.candidates[rows], list(cell_rewrites.values())
        before = {label: _tallies(attack, cell.budgets) for label, attack in applicable.items()}

        def stream(attack: str, epsilon: float) -> Noise:
            of = (params.audit.seed, params.audit.round, "attack", attack, cell.dataset, cell.mechanism, epsilon)
            return Noise.named(rows, *of)

        likelihoods = computed(built, texts, candidates, each, epsilons=cell.budgets)
        knowledge = Knowledge(texts, candidates, built, embedded=embedded, likelihoods=likelihoods, public=public)
        played = play(knowledge, cell_rewrites, applicable, stream)
        guessed = GuessedTrials(rows, {}, {}, {})
        for label, attack in applicable.items():
            guessed.guesses[label] = [by_attack[label] for by_attack in played.values()]
            if isinstance(attack, HasTally):
                guessed.tallies[label] = added(_tallies(attack, cell.budgets), before[label], -1)
            ours = params.embedding.model, params.embedding.precision
            if isinstance(attack, Encodes) and (attack.model, attack.precision) == ours:
                guessed.encoded.update(attack.encoded)
        return guessed

    return guess


def _tallies(attack: Attack, epsilons: tuple[float, ...]) -> list[dict[str, float]]:
    return [dict(attack.tally(epsilon)) if isinstance(attack, HasTally) else {} for epsilon in epsilons]


def added(to: list[dict[str, float]], more: list[dict[str, float]], sign: int) -> list[dict[str, float]]:
    """Return `to` plus `sign` times `more`, for each epsilon and each counter. Counters keep their order."""
    return [
        {what: count.get(what, 0) + sign * other.get(what, 0) for what in {**count, **other}}
        for count, other in zip(to, more, strict=True)
    ]
