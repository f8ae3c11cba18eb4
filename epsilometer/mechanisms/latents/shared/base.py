"""Base class of mechanisms that encode a text as one vector, add noise to it, and decode the result.

The released text is computed only from the noisy vector. So a claim for the noisy vector also holds for the text.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from epsilometer.core.component import component
from epsilometer.core.latents import latents_after, slices
from epsilometer.core.mechanism import LATENTS, Latents, OneOfGrid, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import LatentNoise, add
from epsilometer.runtime.progress import track

_TEXTS = 512  # texts encoded at a time


@component
class LatentMechanism(OneOfGrid):
    """A mechanism that adds noise to a vector of each text.

    resource: the model's folder or id; delta: the delta of the claim for a whole text.
    """

    law_of: ClassVar[str] = LATENTS

    resource: str | Path
    delta: float = 1e-5

    @field_validator("delta")
    @classmethod
    def _probability(cls, value: float) -> float:
        if not 0 < value < 1:
            raise ValueError("delta must be in (0, 1); a usual choice is 1e-5")
        return value

    @abstractmethod
    def law(self, epsilon: float) -> LatentNoise:
        """Return the distribution of the noise on a latent at this epsilon."""

    @abstractmethod
    def latents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the clipped latents [n, d] of n texts. A text's latent must not depend on other texts."""

    @abstractmethod
    def decoded(self, latents: NDArray[np.float32]) -> list[str]:
        """Return a text for each latent [n, d]."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the latents [n, d] as a memory-mapped array on disk. Each distinct text is encoded once.

        The latents of the last call are cached, since successive attacks use the same texts.
        """
        key = tuple(texts)
        if key not in self._encoded:
            self._encoded.clear()
            self._encoded[key] = self._encode(texts)
        return self._encoded[key]

    @cached_property
    def _encoded(self) -> dict[tuple[str, ...], NDArray[np.float32]]:
        return {}

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        distinct = list(number)
        starts = range(0, max(1, len(distinct)), _TEXTS)
        latents: NDArray[np.float32] | None = None
        for start in track(starts, len(starts), "encode texts"):
            part = self.latents(distinct[start : start + _TEXTS])
            if latents is None:
                latents = _on_disk(len(distinct), part.shape[1])
            latents[start : start + len(part)] = part
        assert latents is not None
        return latents if len(distinct) == len(texts) else latents[[number[text] for text in texts]]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Each distinct text is encoded once for all trials and epsilons."""
        laws = [self.law(epsilon) for epsilon in epsilons]
        before = np.asarray(self.encode(texts))
        results = []
        for law, noise in zip(laws, noises, strict=True):
            after = add(before, law, noise)
            results.append(Rewrites(self.decoded(after), latents=Latents(before, after)))
        return results

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return [n, k] per epsilon: the log-density of the noise that turns a candidate's latent into the output."""
        latents = self.encode(texts)
        afters = [latents_after(output, latents.shape[1]) for output in rewrites]
        laws = [self.law(epsilon) for epsilon in epsilons]
        scores = [np.empty(candidates.shape) for _ in epsilons]
        for part in slices(len(candidates), candidates.shape[1] * latents.shape[1]):
            before = latents[candidates[part]]
            for score, after, law in zip(scores, afters, laws, strict=True):
                score[part] = law.log_density(np.asarray(after[part])[:, None] - before)
        return scores


def _on_disk(rows: int, columns: int) -> NDArray[np.float32]:
    """Return an array in a temporary file, so that the system can page it out. The file is deleted with the array."""
    if rows == 0:
        return np.empty((0, columns), np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float32, "w+", shape=(rows, columns))
