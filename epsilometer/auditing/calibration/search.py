"""Search for the epsilon at which attacks on a mechanism meet a target loss, with fresh trials of given texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.calibration.sampled import Batch, Calibrated, Goal, Measure, Watch, calibrate, unwatched
from epsilometer.auditing.claims.verdicts import refuse_public
from epsilometer.auditing.text_audit import Pool, embed
from epsilometer.auditing.trials.answers import Tally, say
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import sample
from epsilometer.core.attack import Attack, Guesses
from epsilometer.core.likelihood import computed, has_law
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play, with_queries

Journal = MutableMapping[tuple[str, float, int, int], Batch]
"""Batches of guesses by attack, epsilon, first trial and count. All batches must come from the same search settings."""


class Guessed(NamedTuple):
    """An attack's guesses in n trials. right: [n], True for right guesses. source: [n], indices of rewritten texts."""

    guesses: Guesses
    right: NDArray[np.bool_]
    source: NDArray[np.integer]


Guessing = Callable[[float, int, int, Sequence[int]], list[Guessed]]
"""Maps (epsilon, first, count, attacks) to the guesses of each attack in fresh trials."""


def fresh_batches(
    pool: Pool, mechanism: Mechanism, attacks: Mapping[str, Attack], design: Design, *, stream: str, tally: Tally
) -> Measure:
    """Return a function that counts the right guesses of `fresh_guesses`."""
    guesses = fresh_guesses(pool, mechanism, attacks, design, stream=stream, tally=tally)

    def fresh(epsilon: float, first: int, count: int, numbers: Sequence[int]) -> list[Batch]:
        every = guesses(epsilon, first, count, numbers)
        return [Batch(int(np.count_nonzero(each.right)), each.guesses.posteriors) for each in every]

    return fresh


def fresh_guesses(
    pool: Pool,
    mechanism: Mechanism,
    attacks: Mapping[str, Attack],
    design: Design,
    *,
    stream: str,
    tally: Tally,
    paired: bool = False,
) -> Guessing:
    """Return a function that draws new candidate sets, sources and noise for each batch, and runs the attacks.

    stream: a name that, with the seed, the epsilon and the number of the first trial, determines the random streams.
    tally: counts the rewrites. paired: True for the same candidate sets and sources at each epsilon. Raises UserError
    if some texts are among the mechanism's public texts.
    """
    refuse_public(mechanism, pool.texts)
    if pool.embedded is None and design.temperature:
        pool = replace(pool, embedded=embed(pool.texts))
    vectors = np.zeros((len(pool.texts), 1), np.float32) if pool.embedded is None else pool.embedded.vectors
    applied = list(attacks.items())

    def fresh(epsilon: float, first: int, count: int, numbers: Sequence[int]) -> list[Guessed]:
        name = (design.seed, stream, epsilon, first)
        seed = "/".join(map(str, (design.seed, stream, first) if paired else name))
        sampled = sample(vectors, count, design.k, design.temperature, seed=seed, groups=pool.groups)
        job = Job(pool.texts, sampled.source, [epsilon], [Noise.named(count, *name, "rewrite")], tally=tally)
        chosen = dict(applied[i] for i in numbers)
        with with_queries(chosen, mechanism, pool.texts, sampled.candidates, epsilons=[epsilon]):
            rewrites = rewrite_all(mechanism, job)
        likelihoods = computed(mechanism, pool.texts, sampled.candidates, rewrites, epsilons=[epsilon])
        played = play(
            Knowledge(pool.texts, sampled.candidates, mechanism, embedded=pool.embedded, likelihoods=likelihoods),
            {epsilon: rewrites[0]},
            chosen,
            lambda attack, _: Noise.named(count, *name, "attack", attack),
        )
        return [Guessed(guess, guess.slots == sampled.target, sampled.source) for guess in played[epsilon].values()]

    return fresh


def search(
    pool: Pool,
    mechanism: Mechanism,
    attacks: Mapping[str, Attack],
    goal: Goal,
    design: Design = STANDARD,
    journal: Journal | None = None,
    watch: Watch = unwatched,
) -> Calibrated:
    """Return the nominal epsilon at which the strongest of these attacks meets the goal's loss.

    The search uses posteriors if the mechanism's law is known and not refuted by the hits; otherwise it uses hits
    (`sampled`). The loss is the guessing loss at delta 0, for every kind of claim. Every batch has fresh candidate
    sets, targets and noise. attacks: by name; each must apply to the mechanism. journal: batches of earlier searches,
    which are not measured again; this search adds its batches. watch: as in `sampled.calibrate`.
    """
    design = as_installed(design)
    tally = Tally()
    fresh = fresh_batches(pool, mechanism, attacks, design, stream="calibrate", tally=tally)
    applied = list(attacks.items())
    entries: Journal = {} if journal is None else journal

    def measure(epsilon: float, first: int, count: int, numbers: Sequence[int]) -> list[Batch]:
        keys = [(applied[i][0], epsilon, first, count) for i in numbers]
        new = [i for i, key in zip(numbers, keys, strict=True) if key not in entries]
        if new:
            batches = fresh(epsilon, first, count, new)
            entries.update({(applied[i][0], epsilon, first, count): b for i, b in zip(new, batches, strict=True)})
        return [entries[key] for key in keys]

    calibrated = calibrate(measure, goal, len(applied), design, watch=watch, lawful=has_law(mechanism))
    say(tally.total)
    return replace(calibrated, attacks=tuple(attacks))
