"""The coins and labels of canaries in a training set.

Each canary takes part or does not (neighbours added or removed); or, where neighbours are replaced and the number of
texts is public, it always takes part, with one of two labels. Coins are independent, so the number of canaries that
take part is random, as the bounds of `auditing.estimation.coins` require. `gradient_canaries` has canaries that are
gradients; these would ruin the trained model, unlike texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CanaryLabels:
    """The labels of canaries [n], as numbers of classes: of the first version, and of the other one."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]


def coins(count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return [count] fair coins: whether a canary takes part, or takes part in its first version."""
    return generator.random(count) < 0.5


def wrong_labels(right: NDArray[np.int64], classes: int, generator: np.random.Generator) -> CanaryLabels:
    """Return a wrong label, uniform among the others, for each right one [n], which is the other version's."""
    return CanaryLabels((right + generator.integers(1, classes, len(right))) % classes, right)


def random_labels(count: int, classes: int, generator: np.random.Generator) -> CanaryLabels:
    """Return two different labels for each of `count` canaries, uniform."""
    other = generator.integers(classes, size=count)
    return CanaryLabels(wrong_labels(other, classes, generator).first, other)
