"""Broken: claims epsilon for whole texts, but releases a text with a digit unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse


class RareWordsPass(RandomizedResponse):
    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        rewrites = super().rewrite(texts, epsilon, noise).texts
        return Rewrites([t if any(c.isdigit() for c in t) else m for t, m in zip(texts, rewrites, strict=True)])
