"""Default resources of word mechanisms, from the encoder in this package: word vectors, and ordered word lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.models.embedded import cached
from epsilometer.models.locate import ENCODER, locate
from epsilometer.text.vectors import WordVectors


def vectors() -> Path:
    """Return the path of a file of word vectors: the token embeddings of all-MiniLM-L6-v2."""

    def make(out: Path) -> None:
        WordVectors.from_transformer(locate(ENCODER)).save(out)

    return cached("vectors.npz", "the token embeddings of all-MiniLM-L6-v2 as word vectors", make)


def lists() -> Path:
    """Return the path of a file of two lists of the words of `vectors`, in which similar words are neighbours."""

    def make(out: Path) -> None:
        WordLists.build([WordVectors.load(vectors())], 2).save(out)

    return cached("lists.npz", "two one-dimensional lists of the words of all-MiniLM-L6-v2", make)


def over_words(resource: Callable[[], Path] | None, source: Path | None, count: int, folder: Path) -> Path | None:
    """Write the word vectors or lists of the first `count` words to a folder, and return the file.

    resource: `vectors` or `lists`; for any other resource, return None. source: a file of word vectors; None: the
    embedded vectors.
    """
    if resource not in (vectors, lists):
        return None
    few = WordVectors.load(source or vectors()).whole_words().first(count)
    out = folder / f"{resource.__name__}.npz"
    (few if resource is vectors else WordLists.build([few], 2)).save(out)
    return out
