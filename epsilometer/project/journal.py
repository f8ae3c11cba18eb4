"""Counts that a search measured, kept as they come, for a search that goes on and for one with another target."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path

Key = tuple[str, float, int, int]
"""attack, epsilon, the number of the first trial, how many trials"""


class Journal(UserDict[Key, int]):
    """Successes by what they were counted in; every new one is a line of JSON at the end of the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                attack, epsilon, first, count, successes = json.loads(line)
            except ValueError:  # a kill cut it off: as if it were not written
                continue
            self.data[attack, epsilon, first, count] = successes

    def __setitem__(self, key: Key, successes: int) -> None:
        self.data[key] = successes
        with self.path.open("a") as file:  # the line break first, since what stands before may be cut off
            file.write("\n" + json.dumps([*key, successes]))
