"""Stage embed@dataset: sentence embeddings of the audited texts.

usage: python -m tasks.embed DATASET
"""

from __future__ import annotations

import sys

from epsilometer import tables
from epsilometer.language.encoder import Encoder
from epsilometer.params import read as read_params
from tasks.files import audited_texts


def main(name: str) -> None:
    """Write data/embeddings/<name>.npy, float32 [texts, dimensions], and what the model's window cut off."""
    params = read_params()
    encoder = Encoder(params.embedding.model, params.embedding.precision)
    vectors = encoder.encode(audited_texts(params, name))
    tables.write_array(vectors, f"data/embeddings/{name}.npy")
    tables.write_json({"window": encoder.window, "cut": encoder.cut}, f"data/embeddings/{name}.json")


if __name__ == "__main__":
    main(sys.argv[1])
