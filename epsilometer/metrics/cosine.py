"""Cosine of the sentence embeddings of original and rewrite (Reimers and Gurevych, EMNLP 2019); 1 for equal texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.models.locate import ENCODER

if TYPE_CHECKING:
    from epsilometer.models.encoder import Encoder


@component
class Cosine:
    """The cosine of two sentence embeddings.

    model: a sentence-transformers model by id or folder.
    """

    model: str = ENCODER
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _encoder(self) -> Encoder:
        from epsilometer.models.encoder import Encoder

        return Encoder(self.model, self.precision)

    @cached_property
    def remembered(self) -> dict[str, NDArray[np.float32]]:
        """Cached vectors of texts. Callers may add vectors that the same encoder computed."""
        return {}

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] cosines, each between -1 and 1. The encoder gives empty texts a vector, too."""
        number = {text: i for i, text in enumerate(dict.fromkeys([*originals, *rewrites]))}
        new = [text for text in number if text not in self.remembered]
        encoded = dict(zip(new, self._encoder.encode(new), strict=True)) if new else {}
        vectors = np.stack([encoded[text] if text in encoded else self.remembered[text] for text in number])
        left, right = (vectors[[number[text] for text in side]] for side in (originals, rewrites))
        return np.einsum("nd,nd->n", left, right, dtype=np.float64)
