"""Broken: spends twice the claimed epsilon, as if a sensitivity had been halved by mistake."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse


class Halved(RandomizedResponse):
    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, 2 * epsilon, noise)
