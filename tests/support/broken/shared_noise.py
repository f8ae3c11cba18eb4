"""Broken: DP-BART as published later (sjmeis/DPMLM 3ce9390) adds one noise vector to the states of all positions.

Differences between positions are then free of noise, at any epsilon. `log_likelihoods` uses these differences: for the
source, the noisy latent minus its latent is equal at every position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.mechanism import Latents, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.dp_bart import DPBART
from epsilometer.mechanisms.latents.shared.noise import add


@component
class SharedNoise(DPBART):
    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        before = np.asarray(self.encode(texts))
        grid = []
        for epsilon, noise in zip(epsilons, noises, strict=True):
            noised = add(np.zeros((len(texts), len(self.dimensions)), np.float32), self.law(epsilon), noise)
            after = before + np.tile(noised, self.length)
            grid.append(Rewrites(self.decoded(after), latents=Latents(before, after)))
        return grid

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        latents = self.encode(texts)[candidates]
        scores = []
        for output in rewrites:
            assert output.latents is not None
            left = (output.latents.after[:, None] - latents).reshape(*candidates.shape, self.length, -1)
            scores.append(-((left - left.mean(axis=2, keepdims=True)) ** 2).sum(axis=(2, 3), dtype=np.float64))
        return scores
