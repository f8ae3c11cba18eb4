"""Dense retrieval: links the facts about a person to the rewrite whose embedding has the largest mean cosine with them.

This attack is the second linker of Xin et al. ("A False Sense of Privacy", arXiv:2504.21035, section 3.2), by default
with the embedded sentence encoder. Each fact is encoded separately, since the encoder truncates texts to about 200
words. For the same reason, the end of a longer rewrite is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.linking import Facts
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER

_KEPT = 1 << 15  # largest number of cached vectors; facts recur in later calls


@component
class Dense:
    """The dense linker. model: a sentence-transformers model by id or path."""

    extra: ClassVar[str] = "models"

    model: str = ENCODER

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.model, "float32")

    @cached_property
    def _vectors(self) -> dict[str, NDArray[np.float32]]:
        """Cached vectors of facts."""
        return {}

    def link(self, facts: Sequence[Facts], rewrites: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean cosines [m, N] of N rewrites with the facts about m people.

        A mean cosine is the dot product of the rewrite's vector and the unnormalised mean vector of the facts.
        """
        vectors = self._vectors
        if len(vectors) > _KEPT:
            vectors.clear()
        new = list(dict.fromkeys(fact for some in facts for fact in some if fact not in vectors))
        vectors.update(zip(new, self._encoder.encode(new), strict=True))
        people = np.stack([np.mean([vectors[fact] for fact in some], axis=0) for some in facts])
        alike = dict.fromkeys(rewrites)
        of = dict(zip(alike, self._encoder.encode(list(alike)), strict=True))
        scores: NDArray[np.float32] = people @ np.stack([of[rewrite] for rewrite in rewrites]).T
        return scores
