"""Broken: spends twice the epsilon that it claims, as if a sensitivity had been halved."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.mechanism import Rewrites
from epsilometer.mechanisms.randomized_response import RandomizedResponse
from epsilometer.randomness import Noise


class Halved(RandomizedResponse):
    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, 2 * epsilon, noise)
