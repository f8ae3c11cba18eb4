"""The embedded encoder, loaded once, which embeds each text once.

`tests/models/test_encoder.py` holds that a text's vector is the same bytes whatever it is encoded with.
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
    """In place of the encoder's own BERT."""

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
    """The encoder's BERT for a folder: of the embedded encoder's, one that remembers."""
    return (Remembering if folder == locate("all-MiniLM-L6-v2") else PLAIN)(folder, precision, device)
