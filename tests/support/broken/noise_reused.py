"""Broken: claims randomised response for each of a text's words, but flips all of them by one coin.

Whether two words agree then survives any amount of noise (as where one noise vector is added to every token's latent).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise

OTHER = {"yes": "no", "no": "yes"}


class NoiseReused:
    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        flip = noise.uniforms()[:, 0] > np.exp(epsilon) / (np.exp(epsilon) + 1)
        rewrites = [" ".join(OTHER[w] if f else w for w in text.split()) for text, f in zip(texts, flip, strict=True)]
        return Rewrites(rewrites)

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)
