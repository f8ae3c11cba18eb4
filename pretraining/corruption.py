"""Corrupted copies of a text, with the place that each unit had in the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Unit = list[int]  # the token numbers of a word, or of a single piece


def words(ids: NDArray[np.int64], continues: NDArray[np.bool_]) -> list[Unit]:
    """The pieces of a text, gathered in words."""
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
    """The units after replacement by `fill`, deletion (never of all) and local shuffling, and the place of each before.

    replace, delete: probability of a unit; shuffle: the most places that a unit moves. A replaced unit
    keeps its place too.
    """
    chance = generator.random((3, len(units)))
    order = np.argsort(np.arange(len(units)) + shuffle * chance[2], kind="stable")
    places = [int(i) for i in order if chance[0, i] >= delete] or [int(order[0])]
    return [fill() if chance[1, i] < replace else list(units[i]) for i in places], places
