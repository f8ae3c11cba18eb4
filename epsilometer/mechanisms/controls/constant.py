"""The constant: replaces every text by the same sentence. It is the control without any utility or loss.

In plain words it replaces every text by the same fixed sentence.

The output reveals nothing, so an attack that beats chance on it is broken. The loss is 0 for any two texts. There is no
claim, since there is no privacy budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise


@component
class Constant:
    """The constant mechanism. text: the released text."""

    control: ClassVar[bool] = True
    has_budget: ClassVar[bool] = False

    text: str = "text"

    @property
    def public_releases(self) -> Sequence[str]:
        """The only release (`HasPublicReleases` in `auditing.worth.releases`)."""
        return [self.text]

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the constant text for each text."""
        return Rewrites([self.text] * len(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return None: a claim needs a budget, and this mechanism has none."""
        return None
