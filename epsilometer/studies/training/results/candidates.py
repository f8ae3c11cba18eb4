"""The losses that the optimal adversary's guesses among k texts prove about noisy gradients.

`attacks.reconstruction.candidates` returns scores. This module turns scores into guesses, hits, posteriors and losses,
by the code for attacks on rewrites. Each row also has the success rate by the noise's law, for k = 2, and an upper
bound on the success rate, for any k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.accounting.releases import VonMisesFisher
from epsilometer.auditing.claims.stated import Stated
from epsilometer.auditing.results.estimates import Attacked, judge, rows
from epsilometer.auditing.trials.sampling import Trials, of_all
from epsilometer.core.attack import Guesses, choose, margins
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours, restored
from epsilometer.core.likelihood import posteriors
from epsilometer.core.mechanism import TEXT
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import log_moment
from epsilometer.studies.training.attacks.reconstruction.candidates import BLOCK, Candidates, GradientPool, noised
from epsilometer.studies.training.results.reconstruction_bounds import exact_match, pair_success
from epsilometer.studies.training.runs.noise import DirectionalNoise, TrainingNoise
from epsilometer.studies.training.tables import CANDIDATES

ATTACK = "candidates"


def table(
    of: Mapping[str, str],
    attack: Candidates,
    pools: Sequence[GradientPool],
    noises: Mapping[float | None, TrainingNoise],
    words: NDArray[np.integer],
    *,
    seed: Sequence[str | int],
    alpha: float,
) -> pl.DataFrame:
    """Return a row (schema `CANDIDATES`) for each noise level and size of candidate sets.

    of:     the data set and mechanism of the rows.
    pools:  the texts' gradients; one pool in all, or one per part (tensor) if each part has its own draw.
    noises: the noise at each level; level None means no noise.
    words:  [texts], the number of words of each text in the pool.
    seed:   the name of the random streams.
    alpha:  the error probability of each interval.

    Sizes larger than the pool are left out. At each size, all levels share their trials and normal numbers.
    """
    every, extra = [], []
    for size in (size for size in attack.sizes if size <= len(words)):
        of_size = trials(len(words), size, attack.trials, seed)
        every_guess = guesses(pools, of_size, list(noises.values()), seed=seed)
        for (level, noise), guessed in zip(noises.items(), every_guess, strict=True):
            claims = _claims(pools, of_size, noise)
            attacked = Attacked(
                of=of,
                epsilon=restored(level),
                stated=_stated(noise),
                trials=of_size,
                words=words,
                claims=claims,
                guesses={ATTACK: guessed},
                sees={ATTACK: TEXT},
                validated={ATTACK: True},
            )
            every += [row for row in rows(attacked, alpha) if row["attack"] == ATTACK]
            extra.append({"level": level} | _of_law(pools, of_size, noise))
    judged = judge(every, alpha)
    full = [own | row for own, row in zip(extra, judged, strict=True)]
    return pl.DataFrame(full, schema=dict(CANDIDATES))


def trials(texts: int, size: int, count: int, seed: Sequence[str | int | float]) -> Trials:
    """Return `count` trials: uniformly sampled sets of `size` distinct texts, each with a uniformly sampled source."""
    if size == texts:
        return of_all(texts, count, "-".join(map(str, (*seed, "candidates"))))
    noise = Noise.named(-(-count // BLOCK), *seed, "candidates", size)
    candidates, target = np.empty((count, size), np.int32), np.empty(count, np.int16)
    for block in range(len(noise)):
        generator, part = noise.generator(block), slice(block * BLOCK, min(count, (block + 1) * BLOCK))
        keys = generator.random((BLOCK, texts), np.float32)
        chosen = np.argpartition(keys, size - 1, axis=1)[:, :size]
        candidates[part] = chosen[: part.stop - part.start]
        target[part] = generator.integers(size, size=BLOCK)[: part.stop - part.start]
    return Trials(candidates, target)


def guesses(
    pools: Sequence[GradientPool], trials: Trials, noises: Sequence[TrainingNoise], *, seed: Sequence[str | int | float]
) -> list[Guesses]:
    """Return, for each noise, every trial's likeliest candidate, its margin over the others, and its posterior."""
    count, size = trials.candidates.shape
    stream = Noise.named(-(-count // BLOCK), *seed, "noise", size)
    ties = Noise.named(count, *seed, "ties", size)
    shape = len(noises), count
    slots, scores, likely = np.empty(shape, np.int16), np.empty(shape), np.empty(shape)
    for block in range(len(stream)):
        part = slice(block * BLOCK, min(count, (block + 1) * BLOCK))
        sets, target = trials.candidates[part], trials.target[part]
        scored = Candidates().log_likelihoods(pools, sets, target, noises, generator=stream.generator(block))
        for i, values in enumerate(scored):
            slots[i, part] = choose(values, ties[part])
            scores[i, part] = margins(values, slots[i, part])
            likely[i, part] = posteriors(values, slots[i, part])
    return [Guesses(*columns) for columns in zip(slots, scores, likely, strict=True)]


def _stated(noise: TrainingNoise) -> Stated:
    """Return the claim of a noise; for directional noise, kappa times the distance of two directions, per part."""
    if not isinstance(noise, DirectionalNoise):
        return Stated()
    claim = Guarantee(noise.kappa, Granularity.EXAMPLE, Neighbours.REPLACED, metric="distance of directions")
    return Stated(claim=claim.describe(), claimed=True)


def _claims(pools: Sequence[GradientPool], trials: Trials, noise: TrainingNoise) -> NDArray[np.float64] | None:
    """Return the loss [n] claimed between the candidates of each trial, in nats; None for noise without a claim.

    The claimed loss between two candidates is kappa times the distance of their directions, per part. If one gradient
    is zero, its draw is uniform, and the claimed loss is kappa + ln M(kappa), where ln M is `log_moment`. For more than
    two candidates, the claimed loss is 2 kappa per part, the maximum for any two gradients.
    """
    if not isinstance(noise, DirectionalNoise):
        return None
    count, size = trials.candidates.shape
    if size > 2:
        return np.full(count, 2 * noise.kappa * len(pools))
    left, right = trials.candidates.T
    claimed = np.zeros(count)
    for pool in pools:
        zero, distances = pool.lengths == 0, np.sqrt(np.maximum(2 - 2 * pool.cosines[left, right], 0))
        of_one = noise.kappa + log_moment(noise.kappa, pool.size)
        claimed += np.where(zero[left] | zero[right], of_one * (zero[left] != zero[right]), noise.kappa * distances)
    return np.maximum(claimed, 1e-12)


def _of_law(pools: Sequence[GradientPool], trials: Trials, noise: TrainingNoise) -> dict[str, float | None]:
    """Return the success rate by the law for k = 2, and the bound for any adversary; each is None if unknown."""
    release = noise.release([pool.size for pool in pools])
    if release is None or (isinstance(release, VonMisesFisher) and release.parts > 1):
        return {"law": None, "bound": None}
    size = trials.candidates.shape[1]
    law = pair_law(pools, *trials.candidates.T, noise=noise) if size == 2 else None
    return {"law": None if law is None else float(law.mean()), "bound": exact_match(release, 1 / size)}


def pair_law(
    pools: Sequence[GradientPool], left: NDArray[np.integer], right: NDArray[np.integer], *, noise: TrainingNoise
) -> NDArray[np.float64] | None:
    """Return the probability [n] that the best adversary guesses right between two texts of a pool.

    left, right: [n], the indices of the two texts. The result is None if the probability is unknown: without noise, for
    a draw per part, and for a directional draw if a gradient is zero.
    """
    release = noise.release([pool.size for pool in pools])
    if release is None or (isinstance(release, VonMisesFisher) and release.parts > 1):
        return None
    pool, directional = pools[0], isinstance(noise, DirectionalNoise)
    if directional and not pool.lengths.all():
        return None
    lengths, deviation = (np.ones(len(pool.lengths)), 1.0) if directional else noised(noise, pool.lengths)
    squares = lengths[left] ** 2 + lengths[right] ** 2
    distances = np.sqrt(np.maximum(squares - 2 * lengths[left] * lengths[right] * pool.cosines[left, right], 0))
    in_units = distances if directional else distances * release.sigma / deviation  # type: ignore[union-attr]
    return pair_success(release, in_units)
