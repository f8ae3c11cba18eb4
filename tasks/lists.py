"""Stage lists: the 1-D word lists of 1-Diffractor.

usage: python -m tasks.lists
"""

from __future__ import annotations

from pathlib import Path

from epsilometer.language.lists import WordLists
from epsilometer.language.vectors import WordVectors
from epsilometer.params import read
from tasks.entry import run


def main() -> None:
    """Write data/words/lists.npz."""
    params = read()
    vectors = WordVectors.load(Path("data/words/vectors.npz"))
    WordLists.build([vectors], params.words.lists, params.audit.seed).save(Path("data/words/lists.npz"))


if __name__ == "__main__":
    run(main)
