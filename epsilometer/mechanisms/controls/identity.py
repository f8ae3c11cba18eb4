"""The identity: every text is released unchanged. The ceiling control of an audit; it claims nothing.

In plain words it publishes every text unchanged.

An adversary that compares texts names the source every time, so the measured loss must reach the ceiling of the number
of trials. It has no privacy budget.
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
    """No privatization at all."""

    control: ClassVar[bool] = True
    has_budget: ClassVar[bool] = False

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the texts, unchanged."""
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None: no finite epsilon holds."""
        return None
