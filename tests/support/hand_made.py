"""A folder of auxiliaries written by hand: word vectors, and a linear classifier with given weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from epsilometer.core import tables
from epsilometer.models.classifiers.linear import Linear
from epsilometer.text.vectors import WordVectors


def auxiliaries(
    folder: Path, weights: Mapping[str, float], vectors: Mapping[str, Sequence[float]], attribute: str = "gender"
) -> Path:
    """Write the auxiliaries. weights: by word, positive for class F, negative for M. vectors: by word."""
    coefficients = np.array([list(weights.values()), [-w for w in weights.values()]])
    vocabulary, ones = list(weights), np.ones(len(weights))
    Linear(["F", "M"], vocabulary, ones, coefficients, intercepts=np.zeros(2)).save(folder / f"{attribute}-linear")
    WordVectors(list(vectors), np.array(list(vectors.values()))).save(folder / "vectors.npz")
    about = {
        "attributes": [attribute],
        "tasks": [],
        "kinds": ["linear"],
        "classes": {attribute: ["F", "M"]},
        "shares": {attribute: {"F": 0.5, "M": 0.5}},
        "texts": [],
    }
    tables.write_json(about, folder / "about.json")
    return folder
