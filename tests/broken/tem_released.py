"""TEM as released (sjmeis/MLDP 65a9eb8): the rest scores ln(V / words inside) instead of ln(words outside)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.laws import Laws
from epsilometer.mechanisms.tem import TEM


@component
class ReleasedTEM(TEM):
    def laws(self, texts: Sequence[str]) -> Laws:
        size = len(self.vocabulary)

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                gamma = round(self.gamma(epsilon), 1)
                distances = self.vectors.distances(words)
                inside = distances <= gamma
                outside = size - inside.sum(axis=1)
                rest = -gamma + 2 / epsilon * np.log(size / inside.sum(axis=1))
                scores = np.column_stack([np.where(inside, -distances, -np.inf), np.where(outside, rest, -np.inf)])
                log_p = log_softmax(epsilon / 2 * scores, axis=1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    yield np.where(inside, log_p[:, :-1], log_p[:, -1:] - np.log(outside)[:, None])

        return Laws(self.vocabulary.encode(texts), size, log_probabilities)
