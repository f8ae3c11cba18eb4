"""All tables: `make bench`; some of them: `python -m benchmarks NAME...`.

Some need what not everybody has: `gpu` a GPU, `similarity`, `privrewrite` and `examples` files, which are named to them
(`python -m benchmarks.similarity`). `peers` measures the reference code beside ours, and fetches it first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import torch

import benchmarks

_NEEDS_FILES = ("similarity", "privrewrite", "examples")


def tables() -> list[str]:
    """The names of the tables that can be computed on this machine."""
    left_out = {*_NEEDS_FILES, "__main__"} | (set() if torch.cuda.is_available() else {"gpu"})
    return [each.name for each in iter_modules(benchmarks.__path__) if not each.ispkg and each.name not in left_out]


if __name__ == "__main__":
    chosen, sys.argv[1:] = sys.argv[1:] or tables(), []  # each reads its own options
    for name in chosen:
        print(f"== {name}", flush=True)
        import_module(f"benchmarks.{name}").main()
