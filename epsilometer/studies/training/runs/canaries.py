"""The coins and labels of canaries in a training set.

For neighbours added or removed, a coin decides whether a canary is included. For neighbours by replacement, the number
of texts is public, so each canary is included, and a coin decides which of two labels it has. Coins are independent, as
the bounds of `auditing.estimation.coins` require, so the number of included canaries is random. These canaries are
texts. `gradient_canaries` has canaries that are gradients; they would ruin a trained model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CanaryLabels:
    """The labels of canaries. first, second: [n], the class indices of the first and of the second version."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]


def coins(count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return fair coins [count]: whether each canary is included, or included in its first version."""
    return generator.random(count) < 0.5


def wrong_labels(right: NDArray[np.int64], classes: int, generator: np.random.Generator) -> CanaryLabels:
    """Return versions for right labels [n]: first with a uniform wrong label, second with the right label."""
    return CanaryLabels((right + generator.integers(1, classes, len(right))) % classes, right)


def random_labels(count: int, classes: int, generator: np.random.Generator) -> CanaryLabels:
    """Return two different uniform labels for each of `count` canaries."""
    other = generator.integers(classes, size=count)
    return CanaryLabels(wrong_labels(other, classes, generator).first, other)
