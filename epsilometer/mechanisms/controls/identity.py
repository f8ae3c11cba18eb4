"""The identity: releases every text unchanged. It is the control with the largest loss, and claims nothing.

In plain words it publishes every text unchanged.

An adversary that compares texts always guesses the source, so the measured loss must reach the largest loss that the
number of trials can prove. There is no privacy budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise


@component
class Identity:
    """The identity mechanism."""

    control: ClassVar[bool] = True
    has_budget: ClassVar[bool] = False

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the texts, unchanged."""
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None: no finite epsilon holds."""
        return None
