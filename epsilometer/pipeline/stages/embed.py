"""Stage embed@dataset: sentence embeddings of the audited texts.

In float32, the results of processors differ in the last bits of most numbers, and rounding does not hide this: on a
grid of 1/1024, two processors round 6 of 384,000 numbers differently. So if params.yaml asks for float32, the
embeddings are computed in float64, where processors differ by about 1e-15, and rounded to multiples of 2^-18. Then one
number in 10^9 differs.

Texts of data sets that no cell audits are not encoded, and get the vector 0. Trials of these data sets have uniformly
drawn candidates, and are not used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.cells.params import read as read_params
from epsilometer.core import tables
from epsilometer.models.encoder import Encoder
from epsilometer.project.paths import audited_texts
from epsilometer.runtime.progress import track

CHUNK = 1024  # texts encoded at a time
GRID = 2.0**18  # grid points per unit


def main(name: str) -> None:
    """Write data/embeddings/<name>.npy, float32 [texts, dimensions], and counts of texts truncated by the model."""
    params = read_params()
    if name not in params.audited:
        tables.write_array(np.zeros((len(audited_texts(params, name)), 1), np.float32), f"data/embeddings/{name}.npy")
        tables.write_json({"window": None, "cut": 0}, f"data/embeddings/{name}.json")
        return
    precision = params.embedding.precision
    encoder = Encoder(params.embedding.model, "float64" if precision == "float32" else precision)
    texts = audited_texts(params, name)
    starts = range(0, len(texts), CHUNK)
    vectors = [encoder.encode(texts[start : start + CHUNK]) for start in track(starts, len(starts), "embed")]
    tables.write_array(on_grid(np.concatenate(vectors)), f"data/embeddings/{name}.npy")
    tables.write_json({"window": encoder.window, "cut": encoder.cut}, f"data/embeddings/{name}.json")


def on_grid(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors rounded to multiples of 1/GRID."""
    return np.rint(vectors * np.float32(GRID)) / np.float32(GRID)
