"""The default resources of word mechanisms: vectors and 1-D lists of the embedded encoder's words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.models.embedded import cached
from epsilometer.models.locate import ENCODER, locate
from epsilometer.text.vectors import WordVectors


def vectors() -> Path:
    """Return the file of all-MiniLM-L6-v2's word vectors, its token embeddings."""

    def make(out: Path) -> None:
        WordVectors.from_transformer(locate(ENCODER)).save(out)

    return cached("vectors.npz", "the word vectors of all-MiniLM-L6-v2's token embeddings", make)


def lists() -> Path:
    """Return the file of two 1-D lists of those words."""

    def make(out: Path) -> None:
        WordLists.build([WordVectors.load(vectors())], 2).save(out)

    return cached("lists.npz", "two 1-D lists of those words", make)


def over_words(resource: Callable[[], Path] | None, source: Path | None, count: int, folder: Path) -> Path | None:
    """Write the word vectors or lists that `resource` returns, over the first `count` words, to a folder.

    source: a file of word vectors; by default the embedded ones. Returns the file, or None for any other resource.
    """
    if resource not in (vectors, lists):
        return None
    few = WordVectors.load(source or vectors()).whole_words().first(count)
    out = folder / f"{resource.__name__}.npz"
    (few if resource is vectors else WordLists.build([few], 2)).save(out)
    return out
