"""Compute one section: python -m tests.goldens.section NAME FILE

Each section has a separate process, so modules that one loads, patches or breaks do not affect another.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from tests.goldens.arithmetic import fingerprint


def main(name: str, file: str) -> None:
    """Write the results of a section, how this machine rounds, and the processor time in seconds."""
    module, _, of = name.partition("_")
    results = import_module(f"tests.goldens.{module}").results(of)
    content = {"results": results, "arithmetic": None if module == "locks" else fingerprint()}
    used = sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
    Path(file).write_text(json.dumps(content | {"seconds": used}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
