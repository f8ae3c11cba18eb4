"""Run all benchmarks (`make bench`), or some of them (`python -m benchmarks NAME...`).

`gpu` needs a GPU. Some need files, so run them separately (`python -m benchmarks.similarity`). `peers` compares the
reference code with this project, and needs fetched code.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import torch

import benchmarks

_NEEDS_FILES = {
    "evolution",
    "examples",
    "generator",
    "generator_smollm2",
    "likeness",
    "privrewrite",
    "release",
    "release_sets",
    "similarity",
}


def tables() -> list[str]:
    """Return the names of the benchmarks that can run on this machine without files."""
    left_out = _NEEDS_FILES | {"__main__"} | (set() if torch.cuda.is_available() else {"gpu"})
    return [each.name for each in iter_modules(benchmarks.__path__) if not each.ispkg and each.name not in left_out]


if __name__ == "__main__":
    chosen, sys.argv[1:] = sys.argv[1:] or tables(), []  # each benchmark parses sys.argv
    for name in chosen:
        print(f"== {name}", flush=True)
        import_module(f"benchmarks.{name}").main()
