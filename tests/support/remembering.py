"""The embedded encoder with a cache: it is loaded once, and encodes each text once.

`tests/models/test_encoder.py` checks that a text's vector does not depend on the other texts of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer.models import encoder
from epsilometer.models.locate import locate

PLAIN = encoder._BertEncoder


@cache
class Remembering:
    """A replacement of the encoder's BERT that caches vectors."""

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        self._encoder = PLAIN(folder, precision, device)
        self.window, self.dimensions = self._encoder.window, self._encoder.dimensions
        self._vectors: dict[str, tuple[np.ndarray, int]] = {}

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors, cut = self._encoder.encode(new)
            each = [self._encoder.encode([text])[1] for text in new] if cut else [0] * len(new)
            self._vectors.update(zip(new, zip(vectors, each, strict=True), strict=True))
        vectors, cut = zip(*(self._vectors[text] for text in texts), strict=True)
        return np.array(vectors), sum(cut)


def remembering(folder: Path, precision: str, device: str) -> Any:
    """Return the encoder's BERT for a folder, with a cache for the embedded encoder."""
    return (Remembering if folder == locate("all-MiniLM-L6-v2") else PLAIN)(folder, precision, device)
