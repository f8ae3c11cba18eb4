"""Stage vectors@name: word vectors in one format, from a user's file, a package or a transformer's input embeddings."""

from __future__ import annotations

from pathlib import Path

from epsilometer.models.locate import locate
from epsilometer.pipeline.params import read
from epsilometer.runtime.packages import read_pin
from epsilometer.text.vectors import WordVectors


def main(name: str) -> None:
    """Write data/vectors/<name>.npz."""
    params = read()
    source = Path(params.path(params.words.sources[name]))
    # A model on the hub, whose input embeddings are used.
    pinned = source.suffix == ".json" and read_pin(source) is None
    vectors = WordVectors.from_transformer(locate(source)) if pinned else WordVectors.load(source)
    vectors.save(Path(f"data/vectors/{name}.npz"))
