"""Trials of sets: worth, loss and ceilings are taken over the same texts.

A ceiling binds where many pairs among texts that one mechanism serves are audited (`frontier.py`). So sets of texts are
drawn (`ceiling.draw_sets`), and each gets one trial: a uniform pair of its texts, and uniformly one of both as source.
So every text of a set is as likely the source, which is pi in `TextSet.of_all_pairs`. More trials of a set would tell
less than as many more sets: a set's ceiling takes a hundredth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.randomness import Noise


def draw_trials(sets: Sequence[NDArray[np.integer]], seed: int | str = 0) -> Trials:
    """Returns a trial of every set, in their order, of two candidates each.

    sets: the numbers of each set's texts. Raises ValueError for a set of fewer than two texts.
    """
    uniforms = Noise.named(len(sets), seed, "trials", "sets").uniforms(3)
    candidates = np.empty((len(sets), 2), np.int32)
    for trial, numbers in enumerate(sets):
        if len(numbers) < 2:
            raise ValueError(f"a set must have at least two texts, got {len(numbers)}")
        first = int(uniforms[trial, 0] * len(numbers))
        second = int(uniforms[trial, 1] * (len(numbers) - 1))
        candidates[trial] = numbers[first], numbers[second + (second >= first)]
    return Trials(candidates, (uniforms[:, 2] * 2).astype(np.int16))
