"""1-Diffractor's list settings for several sources of word vectors, and the vectors of the first for the same words.
L0 has one list of each source, L1 two, and L2 only one of the first (IWSPA 2024, section 4.1.1). All mechanisms choose
among the same words: those that every source has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.mechanism import Mechanism
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.models.locate import locate
from epsilometer.text.vectors import WordVectors

_LISTS = 2  # of each source


class Resources(NamedTuple):
    """Files that mechanisms read, and the lists that each setting uses."""

    lists: Path
    vectors: Path
    used: dict[str, list[int]]

    def mechanism(self, module: str, settings: dict[str, Any], setting: str = "L0") -> Mechanism:
        """Return a mechanism of this module; 1-Diffractor has the lists of a setting."""
        if module == "diffractor":
            return mechanism(module, {"resource": self.lists, "lists_used": self.used[setting], **settings})
        return mechanism(module, {"resource": self.vectors, **settings})


def save(sources: Sequence[str], folder: Path) -> Resources:
    """Write both files to a folder. sources: files of word vectors, or transformers by id or folder."""
    read = [_vectors(source) for source in sources]
    lists = WordLists.build(read, _LISTS)
    number = {word: i for i, word in enumerate(read[0].words)}
    rows = [number[word] for word in lists.words]
    resources = Resources(
        folder / "lists.npz",
        folder / "vectors.npz",
        {"L0": [*range(0, _LISTS * len(read), _LISTS)], "L1": [*range(_LISTS * len(read))], "L2": [0]},
    )
    lists.save(resources.lists)
    WordVectors(lists.words, read[0].exact[rows]).save(resources.vectors)
    return resources


def _vectors(source: str) -> WordVectors:
    path = Path(source)
    return (WordVectors.load(path) if path.is_file() else WordVectors.from_transformer(locate(source))).whole_words()
