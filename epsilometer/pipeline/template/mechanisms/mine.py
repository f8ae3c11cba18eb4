"""An example mechanism: each word is shown with a probability, and masked otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise


@component
class Mine:
    """Masks words; the larger epsilon, the fewer."""

    mask: str = "***"  # a setting; unknown ones are refused

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites of texts; each text has a stream of its own."""
        rewrites = []
        for i, text in enumerate(texts):
            rng = noise.generator(i)
            shown = [word if rng.random() > 1 / (1 + epsilon) else self.mask for word in text.split()]
            rewrites.append(" ".join(shown))
        return Rewrites(rewrites)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """No claim: it is audited all the same."""
        return None
