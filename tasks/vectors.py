"""Stage vectors: word vectors in one format, from a user's file or a transformer's token embeddings.

usage: python -m tasks.vectors
"""

from __future__ import annotations

import json
from pathlib import Path

from epsilometer.language.models import locate
from epsilometer.language.vectors import WordVectors
from epsilometer.params import read
from tasks.entry import run


def main() -> None:
    """Write data/words/vectors.npz."""
    params = read()
    source = Path(params.path(params.words.source))
    if source.suffix == ".json":  # a pin: the token embeddings of this model
        vectors = WordVectors.from_transformer(locate(json.loads(source.read_text())["model"]))
    else:
        vectors = WordVectors.load(source)
    vectors.save(Path("data/words/vectors.npz"))


if __name__ == "__main__":
    run(main)
