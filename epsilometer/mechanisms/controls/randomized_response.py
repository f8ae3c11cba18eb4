"""Generalised randomised response over a public list of texts (Warner 1965; Kairouz, Bonawitz and Ramage 2016).

In plain words it publishes the text as it is with a stated chance, and another text of a public list otherwise.

With N texts on the list, the text itself is released with probability e^epsilon / (e^epsilon + N - 1), and otherwise
one of the N - 1 other texts, uniformly at random:

    P(y | x) = e^(epsilon [y = x]) / (e^epsilon + N - 1).

Assumptions: the list is public; every input is on it (any other text is replaced by the list's first text before the
noise). The claim is epsilon-local differential privacy between any two whole texts. It is tight: on a list of two texts
the loss of the optimal adversary is exactly epsilon. So this mechanism checks audits against a known loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, Repeated, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.shared.public_list import PublicList


@component
class RandomizedResponse:
    """Randomised response over a public list of texts.

    resource: the public list: a Parquet file with a column `text`, or the texts; by default the audited texts.
    """

    among_texts: ClassVar[bool] = True
    takes_repeated: ClassVar[bool] = True
    control: ClassVar[bool] = True
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # the text is the unit

    resource: Path | tuple[str, ...]

    @cached_property
    def _list(self) -> PublicList:
        return PublicList(self.resource)

    def _numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return self._list.numbers(texts, elsewhere=0)

    @property
    def inputs(self) -> list[str]:
        """The public list."""
        return self._list.texts

    @property
    def output_texts(self) -> list[str]:
        """The possible outputs: the public list."""
        return self._list.texts

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for a whole text."""
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Sample by inverse CDF in closed form, with one uniform per text; a publication uses exact samplers."""
        if noise.exact is not None:
            (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
            return Rewrites([self.output_texts[i] for i in units.values], units)
        private, others = self._numbers(texts), len(self.output_texts) - 1
        uniform = noise.uniforms()[:, 0]
        # exp(-epsilon) does not overflow, unlike exp(epsilon).
        keep = 1 / (1 + others * np.exp(-epsilon))
        moved = np.flatnonzero(uniform >= keep)
        other = np.minimum((uniform[moved] - keep) / max(1 - keep, 1e-300) * others, others - 1).astype(np.int32)
        output = private.astype(np.int32)
        output[moved] = other + (other >= private[moved])
        units = Ragged.single(output)
        return Rewrites(Repeated(self.output_texts, units.values), units)

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods as in `HasLikelihood`, up to a constant: epsilon for the released text, else 0."""
        numbers = self._numbers(texts).astype(np.int32)[candidates.T]  # a row per candidate slot: faster for few slots
        released = [output.units.values for output in rewrites if output.units is not None]
        return [((numbers == out) * epsilon).T for out, epsilon in zip(released, epsilons, strict=True)]

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws. A text has one unit, the released text."""

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                base = -np.logaddexp(epsilon, np.log(len(self.output_texts) - 1))
                law = np.full((len(rows), len(self.output_texts)), base)
                law[np.arange(len(rows)), rows] += epsilon
                yield law

        rows = Ragged.single(self._numbers(texts))
        return Laws(rows, len(self.output_texts), log_probabilities)
