"""The batches of indices of the examples in each step, drawn according to a schedule of `accounting.schedule`.

The accountant takes the same schedule, so the claim is about the batches that were drawn.

- `Poisson`: for every step and every example a separate coin, which includes it with probability q = 1 / ceil(N / B)
  exactly (a whole number below ceil(N / B) is 0). A batch may have any size, 0 included, and an empty batch is also a
  step: skipping it would reveal that no example was in it.
- `Shuffled`: one random order of all examples, divided into ceil(N / B) batches whose sizes are public, the same ones
  in every pass.

A batch depends only on the stream and the number of its step, so an interrupted training can resume at any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Schedule
from epsilometer.core.randomness import Noise


def batches(schedule: Schedule, noise: Noise, first: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yield the indices [any], in ascending order, of the examples of step first, first + 1, ... of the schedule.

    noise: a stream for each step; a shuffled schedule uses the first one alone, for the order.
    """
    if isinstance(schedule, Poisson):
        for step in range(first, schedule.steps):
            coins = noise.generator(step).integers(schedule.batches, size=schedule.texts, dtype=np.uint32)
            yield np.flatnonzero(coins == 0)
    else:
        order = noise.generator(0).permutation(schedule.texts)
        ends = accumulate(schedule.sizes, initial=0)
        parts = [np.sort(order[start:end]) for start, end in pairwise(ends)]
        for step in range(first, schedule.steps):
            yield parts[step % len(parts)]
