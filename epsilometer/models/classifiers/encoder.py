"""Logistic regression on the vectors of the frozen, embedded sentence encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.models import locate
from epsilometer.models.classifier import ENCODER, Examples, Text, each_once, write_about
from epsilometer.models.classifiers import pairs
from epsilometer.models.classifiers.linear import logistic_regression
from epsilometer.models.logits import probabilities_on_grid
from epsilometer.text.vectors import read_arrays, write_arrays

_WEIGHTS = "weights.npz"
_LISTS = 8  # number of most recent lists of texts whose vectors are cached


class EncoderHead:
    """A linear head on the frozen encoder all-MiniLM-L6-v2.

    coefficients: float64 [c, d] for c classes and vectors of size d. For pairs: [c, 4 d + 1] (`classifiers.pairs`).
    intercepts:   float64 [c].
    """

    kind = ENCODER

    def __init__(
        self,
        classes: Sequence[str],
        coefficients: NDArray[np.float64],
        intercepts: NDArray[np.float64],
    ) -> None:
        self.classes = list(classes)
        self.coefficients, self.intercepts = coefficients, intercepts

    @classmethod
    def fit(cls, examples: Examples) -> EncoderHead:
        """Train the head on these examples."""
        return cls(*logistic_regression(features(examples.texts), examples.labels))

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> EncoderHead:
        """Return the classifier in a folder."""
        coefficients, intercepts = read_arrays(folder / _WEIGHTS, "coefficients", "intercepts")
        return cls(about["classes"], coefficients, intercepts)

    def save(self, folder: Path) -> None:
        """Write the head."""
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(folder / _WEIGHTS, coefficients=self.coefficients, intercepts=self.intercepts)
        write_about(folder, self.kind, self.classes, {"encoder": locate.ENCODER})

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        """Return [n, c]: each text's probability of each class."""

        def compute(distinct: Sequence[Text]) -> NDArray[np.float64]:
            # einsum is used because a matrix product may sum a row in an order that depends on the number of rows.
            return probabilities_on_grid(
                np.einsum("nd,cd->nc", features(distinct), self.coefficients) + self.intercepts
            )

        return each_once(texts, compute, len(self.classes))


def features(texts: Sequence[Text]) -> NDArray[np.float64]:
    """Return the vectors of texts [n, d], or the features of pairs."""
    vectors: NDArray[np.float64] = pairs.features(texts, lambda singles: _vectors(tuple(singles)))
    return vectors


@lru_cache(_LISTS)
def _vectors(texts: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the vectors of texts [n, d]. Recent lists are cached, since many classifiers are tested on one list."""
    distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}  # some mechanisms release few distinct texts
    vectors: NDArray[np.float64] = _encoder().encode([*distinct]).astype(np.float64)
    return vectors[[distinct[text] for text in texts]]


@cache
def _encoder() -> Any:
    """Return the encoder, loaded once for the classifiers of all labels."""
    from epsilometer.models.encoder import Encoder

    return Encoder(locate.ENCODER)
