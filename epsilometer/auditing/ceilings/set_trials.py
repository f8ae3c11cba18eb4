"""Trials on sets of texts, which give worth, loss and ceilings over the same texts.

A ceiling is tight if one mechanism serves several texts and many pairs of these texts are audited (`frontier.py`). So
sets of texts are drawn (`draw_sets`), and each set gets one trial: a pair of its texts is drawn uniformly, and one text
of the pair is the source. Every text of a set is equally likely as source, with the probability pi of
`TextSet.of_all_pairs`. Further sets are more informative than further trials on a set, and are cheap: a set's ceiling
takes a hundredth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.core.sizes import LARGEST_SET
from epsilometer.core.values import check_whole
from epsilometer.text.words import words


def draw_sets(
    texts: Sequence[str], count: int, size: int, *, equal_length: bool = False, seed: int | str = 0
) -> list[NDArray[np.int64]]:
    """Draw `count` sets of `size` different texts uniformly; return the indices [size] of each set's texts.

    equal_length: True if all texts of a set must have equally many words. Raises UserError for a size that `check_size`
    rejects, and if no set can be drawn.
    """
    check_size(size)
    check_whole(count, "sets")
    if count < 1:
        raise UserError(f"sets must be at least 1, got {count}", "EPS-A049")
    lengths = np.array([len(words(text)) if equal_length else 0 for text in texts], np.int64)
    groups = {int(length): np.flatnonzero(lengths == length) for length in np.unique(lengths)}
    usable = np.concatenate([np.empty(0, np.int64), *(group for group in groups.values() if len(group) >= size)])
    if not len(usable):
        equal = " with equally many words" if equal_length else ""
        raise UserError(
            f"a set of {size} texts{equal} cannot be drawn from {len(texts)} texts; give more texts, or a smaller size",
            "EPS-A050",
        )
    generator = Noise.named(1, seed, "ceiling", size).generator(0)
    around = generator.choice(usable, count)
    return [generator.choice(groups[int(lengths[i])], size, replace=False) for i in around]


def draw_trials(sets: Sequence[NDArray[np.integer]], seed: int | str = 0) -> Trials:
    """Return one trial per set, with two candidates each.

    sets: the indices of each set's texts. Raises ValueError for a set of fewer than two texts.
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


def grown_sets(pairs: NDArray[np.integer], size: int) -> list[NDArray[np.intp]]:
    """Group audited pairs [n, 2] into sets of at most `size` texts; return each set's pairs as indices into `pairs`.

    Pairs are taken in order. Each pair merges the sets of its two texts unless the merged set exceeds `size`. A pair
    whose texts stay in two sets becomes a set by itself. Raises UserError for a size that `check_size` rejects.
    """
    check_size(size)
    set_of = {text: [text] for text in np.unique(pairs).tolist()}
    for first, second in pairs.tolist():
        joined = set_of[first] + set_of[second]
        if set_of[first] is not set_of[second] and len(joined) <= size:
            set_of |= dict.fromkeys(joined, joined)
    within: dict[int, list[int]] = {}
    alone = []
    for place, (first, second) in enumerate(pairs.tolist()):
        if set_of[first] is set_of[second]:
            within.setdefault(set_of[first][0], []).append(place)
        else:
            alone.append([place])
    return [np.array(places, np.intp) for places in (*within.values(), *alone)]


def check_size(size: int) -> None:
    """Raise UserError for a size of sets for which no ceiling is computed: below 2 or above LARGEST_SET."""
    check_whole(size, "size")
    if not 2 <= size <= LARGEST_SET:
        raise UserError(f"a ceiling needs sets of 2 to {LARGEST_SET} texts, got a size of {size}", "EPS-A051")
