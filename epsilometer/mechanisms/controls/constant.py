"""A constant text: whatever goes in, the same comes out. The other end of every table, beside `identity`.

Nobody can learn anything from it, so an attack that does is broken. Its loss is 0 for any two texts; it makes no claim,
as it has no privacy budget.
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
    """text: what every text becomes."""

    control: ClassVar[bool] = True
    has_budget: ClassVar[bool] = False

    text: str = "text"

    @property
    def public_releases(self) -> Sequence[str]:
        """As `HasPublicReleases` of `auditing.worth.releases`."""
        return [self.text]

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """The one text, as often as there are texts."""
        return Rewrites([self.text] * len(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None: there is no budget that a claim could name."""
        return None
