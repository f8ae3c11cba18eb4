"""Broken: claims randomised response for each word of a text, but one coin decides about all words.

The output then reveals whether two words agree, at any amount of noise. The same happens if one noise vector is added
to the latents of all tokens.
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
