"""Short texts on four topics, and vectors that encode the topic, for tests without an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared import public_cells

TOPICS = {
    "music": ("play", "song", "album", "band"),
    "food": ("book", "table", "dinner", "pasta"),
    "weather": ("rain", "wind", "snow", "sun"),
    "travel": ("train", "flight", "hotel", "ticket"),
}
_WORDS = {word: place for place, words in enumerate(TOPICS.values()) for word in words}


def texts(prefix: str, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return texts on the four topics in turn, and their topics."""
    names = list(TOPICS)
    rows = [(f"{prefix} {TOPICS[names[i % 4]][i // 4 % 4]} number {i}", names[i % 4]) for i in range(count)]
    return tuple(text for text, _ in rows), tuple(topic for _, topic in rows)


PUBLIC, PUBLIC_TOPICS = texts("public", 40)
TEXTS, LABELS = texts("mine", 60)


class Writer:
    """A masked language model's stand-in. Replaces each word by one that says which stream it was."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> SimpleNamespace:
        numbers = noise.uniforms()[:, 0]
        written = [
            " ".join(f"w{number:.4f}" for _ in text.split()) for text, number in zip(texts, numbers, strict=True)
        ]
        return SimpleNamespace(texts=written)


def vectors(_: Any, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return unit vectors that depend mostly on the topic, and slightly on the text."""
    rows = np.zeros((len(texts), 16))
    for row, text in enumerate(texts):
        for word in text.split():
            if word in _WORDS:
                rows[row, _WORDS[word]] += 3
        rows[row, 4 + sum(map(ord, text)) % 12] += 1
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def words_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the encoder by `vectors` for one test."""
    monkeypatch.setattr(public_cells, "embed", vectors)
    monkeypatch.setattr(public_cells, "Encoder", lambda name: None)
