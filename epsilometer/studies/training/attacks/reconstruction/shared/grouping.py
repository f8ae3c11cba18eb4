"""Grouping of vectors into groups of known sizes: k-means with an assignment step that respects the sizes.

To assign points to groups at the smallest total cost is a transport problem. scipy's `linear_sum_assignment` solves it
exactly, with a group of size s repeated s times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

ROUNDS = 50  # maximum number of rounds of assignment and means; convergence takes far fewer


def assigned(costs: NDArray[np.floating], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the group [n] of each point at the smallest total cost; -1 for points that fit into no group.

    costs: [n, groups], the cost of each point in each group; sizes: the maximum number of points of each group.
    """
    group_of_place = np.repeat(np.arange(len(sizes)), sizes)
    rows, places = linear_sum_assignment(costs[:, group_of_place])
    groups = np.full(len(costs), -1)
    groups[rows] = group_of_place[places]
    return groups


def grouped(
    points: NDArray[np.floating], sizes: Sequence[int], starts: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return the group [n] of each point, -1 for none: the best result of k-means over `starts` random starts.

    points: [n, dimensions]; sizes: the maximum number of points of each group.
    """
    best, least = np.full(len(points), -1), np.inf
    if not len(points):
        return best
    for _ in range(starts):
        centres = points[generator.choice(len(points), len(sizes), replace=len(points) < len(sizes))]
        groups, cost = _settled(points, centres, sizes)
        if cost < least:
            best, least = groups, cost
    return best


def _settled(
    points: NDArray[np.floating], centres: NDArray[np.floating], sizes: Sequence[int]
) -> tuple[NDArray[np.int64], float]:
    """Run k-means from these centres. Returns the groups and the sum of squared distances to the groups' means."""
    groups, cost = np.full(len(points), -1), np.inf
    for _ in range(ROUNDS):
        distances = ((points[:, None] - centres) ** 2).sum(2)
        now = assigned(distances, sizes)
        if np.array_equal(now, groups):
            break
        groups = now
        placed = groups >= 0
        cost = float(distances[placed, groups[placed]].sum())
        centres = np.stack(
            [points[groups == i].mean(0) if (groups == i).any() else old for i, old in enumerate(centres)]
        )
    return groups, cost
