"""Corrupted copies of a text, with the position of each unit in the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Unit = list[int]  # the token numbers of a word, or of a single piece


def words(ids: NDArray[np.int64], continues: NDArray[np.bool_]) -> list[Unit]:
    """Return the pieces of a text, grouped by word."""
    units: list[Unit] = []
    for i in ids.tolist():
        if continues[i] and units:
            units[-1].append(i)
        else:
            units.append([i])
    return units


def corrupt(
    units: Sequence[Unit],
    generator: np.random.Generator,
    fill: Callable[[], Unit],
    replace: float = 0.0,
    delete: float = 0.0,
    shuffle: float = 0.0,
) -> tuple[list[Unit], list[int]]:
    """Return the units after replacement by `fill`, deletion (never of all) and local shuffling, and their positions.
    The positions are those in the original, also for replaced units. replace, delete: probability for each unit.
    shuffle: largest shift of a unit.
    """
    chance = generator.random((3, len(units)))
    order = np.argsort(np.arange(len(units)) + shuffle * chance[2], kind="stable")
    places = [int(i) for i in order if chance[0, i] >= delete] or [int(order[0])]
    return [fill() if chance[1, i] < replace else list(units[i]) for i in places], places
