"""Stage embed@dataset: sentence embeddings of the audited texts.

usage: python -m tasks.embed DATASET
"""

from __future__ import annotations

import numpy as np

from epsilometer import tables
from epsilometer.language.encoder import Encoder
from epsilometer.params import read as read_params
from epsilometer.progress import track
from tasks.entry import run
from tasks.files import audited_texts

CHUNK = 1024


def main(name: str) -> None:
    """Write data/embeddings/<name>.npy, float32 [texts, dimensions], and what the model's window cut off."""
    params = read_params()
    encoder = Encoder(params.embedding.model, params.embedding.precision)
    texts = audited_texts(params, name)
    starts = range(0, len(texts), CHUNK)
    vectors = [encoder.encode(texts[start : start + CHUNK]) for start in track(starts, len(starts), "embed")]
    tables.write_array(np.concatenate(vectors), f"data/embeddings/{name}.npy")
    tables.write_json({"window": encoder.window, "cut": encoder.cut}, f"data/embeddings/{name}.json")


if __name__ == "__main__":
    run(main)
