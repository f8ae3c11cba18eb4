"""The coin: releases the text itself with probability tanh(l / 2), else one fixed public sentence.

In plain words it publishes the text as it is with a stated chance, and one fixed public sentence otherwise.

With tau = tanh(l / 2) and s the sentence,

    P(x | x) = tau,    P(s | x) = 1 - tau.

An adversary who sees a text knows the source; an adversary who sees the sentence must guess. So with two equally likely
candidates the optimal adversary guesses the source with probability (1 + tau) / 2 = e^l / (1 + e^l), and the average
loss is exactly l for any two texts. At one nat the coin publishes 46 % of the texts verbatim. It therefore has a higher
utility than other mechanisms at the same average loss, but nobody would use it. It shows that an average loss alone
cannot rank mechanisms.

Claim: (0, tau)-differential privacy between any two whole documents, since the total variation between their output
distributions is tau. No smaller delta holds at any finite epsilon, since P(x | x') = 0; so `delta_at_4` is tau, too.
Assumptions: the sentence is public; every input is on the public list (any other text always becomes the sentence).
"""

from __future__ import annotations

import math
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
class Coin:
    """The coin mechanism. The privacy budget is the average loss l.

    resource: the public list: a Parquet file with a column `text`, or the texts; by default the audited texts.
    sentence: the text that is released if the text itself is not.
    """

    among_texts: ClassVar[bool] = True
    takes_repeated: ClassVar[bool] = True
    control: ClassVar[bool] = True
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # the text is the unit

    resource: Path | tuple[str, ...]
    sentence: str = "This text is withheld."

    @cached_property
    def _list(self) -> PublicList:
        return PublicList(self.resource)

    @cached_property
    def inputs(self) -> list[str]:
        """The public list."""
        return self._list.texts

    @cached_property
    def output_texts(self) -> list[str]:
        """The possible outputs: the public list, then the sentence."""
        return [*self.inputs, self.sentence]

    def _numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the index of the output equal to each text, [n]; the sentence's index for texts not on the list."""
        return self._list.numbers(texts, elsewhere=len(self.inputs))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """(0, tanh(l / 2)) for a whole text; none where tanh(l / 2) rounds to 1."""
        delta = math.tanh(epsilon / 2)
        return Guarantee.of_delta(delta, Granularity.DOCUMENT, Neighbours.ANY) if delta < 1 else None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Sample by one uniform per text; a publication uses exact samplers."""
        if noise.exact is not None:
            (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
            return Rewrites([self.output_texts[i] for i in units.values], units)
        shown = noise.uniforms()[:, 0] < math.tanh(epsilon / 2)
        output = np.where(shown, self._numbers(texts), len(self.inputs))
        units = Ragged.single(output.astype(np.int32))
        return Rewrites(Repeated(self.output_texts, units.values), units)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws. A text has one unit, the released text, which is on the list or is the sentence."""
        sentence = len(self.inputs)

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                law = np.full((len(rows), sentence + 1), -np.inf)
                law[:, sentence] = _log_withheld(epsilon)
                law[np.arange(len(rows)), rows] = np.where(rows == sentence, 0.0, _log_shown(epsilon))
                yield law

        rows = Ragged.single(self._numbers(texts))
        return Laws(rows, sentence + 1, log_probabilities)

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods as in `HasLikelihood`, [n, k] per epsilon."""
        numbers, sentence = self._numbers(texts)[candidates], len(self.inputs)
        values = []
        for rewrite, epsilon in zip(rewrites, epsilons, strict=True):
            assert rewrite.units is not None
            released = rewrite.units.values[:, None]
            withheld = np.where(numbers == sentence, 0.0, _log_withheld(epsilon))
            own = np.where(numbers == released, _log_shown(epsilon), -np.inf)
            values.append(np.where(released == sentence, withheld, own))
        return values


def _log_shown(epsilon: float) -> float:
    """Return ln tanh(l / 2)."""
    return math.log(math.tanh(epsilon / 2))


def _log_withheld(epsilon: float) -> float:
    """Return ln(1 - tanh(l / 2)) = ln 2 - ln(1 + e^l), finite at any l."""
    return math.log(2) - float(np.logaddexp(0, epsilon))
