"""Stage lists: the one-dimensional word lists of 1-Diffractor."""

from __future__ import annotations

from pathlib import Path

from epsilometer.cells.params import read
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.runtime.progress import say
from epsilometer.text.vectors import WordVectors


def main() -> None:
    """Write data/lists.npz, with the words that all sources share."""
    params = read()
    sources = [WordVectors.load(Path(f"data/vectors/{name}.npz")) for name in params.words.sources]
    lists = WordLists.build(sources, params.words.lists, params.audit.seed)
    for name, source in zip(params.words.sources, sources, strict=True):
        say(f"lists: {len(lists.words)} of the {len(source)} words of {name} are whole words that all sources have")
    lists.save(Path("data/lists.npz"))
