"""The sampling of batches by a schedule of `accounting.schedule`. A batch lists the indices of a step's examples.

The accountant uses the same schedule, so the claim is about the batches that are sampled. For N examples and batches of
nominal size B:

- `Poisson`: in every step, each example gets a random integer below ceil(N / B). The example enters if its integer is
  0, which has the probability q = 1 / ceil(N / B) exactly. A batch may have any size. An empty batch is also a step,
  because a skipped step would reveal that no example entered.
- `Shuffled`: one random order of all examples is divided into ceil(N / B) batches of public sizes, which are the same
  in every pass.

A batch depends only on the random stream and the step's number, so an interrupted training can resume at any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Schedule
from epsilometer.core.randomness import Noise


def batches(schedule: Schedule, noise: Noise, first: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yield the batches of the steps from `first` on: the indices of the examples, ascending.

    noise: a random stream for each step; a shuffled schedule uses only the first stream, for the order.
    """
    if isinstance(schedule, Poisson):
        for step in range(first, schedule.steps):
            yield by_coins(schedule, schedule.texts, noise.generator(step))
    else:
        order = noise.generator(0).permutation(schedule.texts)
        ends = accumulate(schedule.sizes, initial=0)
        parts = [np.sort(order[start:end]) for start, end in pairwise(ends)]
        for step in range(first, schedule.steps):
            yield parts[step % len(parts)]


def by_coins(schedule: Poisson, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the indices of those of `count` examples that enter a step, each with probability q."""
    return np.flatnonzero(generator.integers(schedule.batches, size=count, dtype=np.uint32) == 0)
