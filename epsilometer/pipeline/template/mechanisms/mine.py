"""An example mechanism, which masks words at random."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise


@component
class Mine:
    """Masks each word with probability 1 / (1 + epsilon)."""

    mask: str = "***"  # a setting; params.yaml may give another value

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites of texts; each text has its own stream of random numbers."""
        rewrites = []
        for i, text in enumerate(texts):
            rng = noise.generator(i)
            shown = [word if rng.random() > 1 / (1 + epsilon) else self.mask for word in text.split()]
            rewrites.append(" ".join(shown))
        return Rewrites(rewrites)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return no claim; the mechanism can be audited without one."""
        return None
