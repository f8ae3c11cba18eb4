"""Broken: one step of DP-Fusion over two tokens, one of which has a small probability under the public model.

For one secret, the private model writes this rare token more often than the public model; for the other, almost never.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.models.fusion import Fusion


@component
class FusionOfTwoTokens(OneOfGrid):
    """The mechanism. Its epsilon is 4 beta.

    rare: the public probability of the rarer token. between_secrets: compare two secrets, or a secret with the
    redaction.
    """

    rare: Annotated[float, Field(gt=0, lt=0.5)] = 1e-5
    order: float = 2.0
    delta: float = 1e-5
    between_secrets: bool = True

    @property
    def inputs(self) -> Sequence[str]:
        """The two input texts."""
        return ["ann", "bob"] if self.between_secrets else ["ann", "redacted"]

    @property
    def output_texts(self) -> Sequence[str]:
        """The two tokens."""
        return ["common", "rare"]

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return 4 beta + ln(1 / delta) / (a - 1) for one step, as published."""
        total = epsilon - math.log(self.delta) / (self.order - 1)
        return Guarantee(total, Granularity.DOCUMENT, Neighbours.ANY, self.delta)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return laws with three rows: ann, bob and the redaction."""
        public = [1 - self.rare, self.rare]
        private = torch.tensor([[0.5, 0.5], [1 - 1e-300, 1e-300], public], dtype=torch.float64).log()
        base = torch.tensor([public] * 3, dtype=torch.float64).log()

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                bounds = torch.full((3,), self.order * epsilon / 4, dtype=torch.float64)
                yield Fusion(self.order).mixed(private, base, bounds).numpy()[rows]

        rows = np.array([["ann", "bob", "redacted"].index(text.split()[0]) for text in texts])
        return Laws(Ragged.single(rows), 2, log_probabilities)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Draw a token for each text."""
        outputs = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [Rewrites([self.output_texts[unit] for unit in units.values], units) for units in outputs]
