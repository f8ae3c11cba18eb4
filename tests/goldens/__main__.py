"""Compare results with the frozen ones, and name the first difference; or freeze them.

python -m tests.goldens [SECTION ...]           compare all sections, or those named: exit code 1 for a difference
python -m tests.goldens freeze [SECTION ...]    replace the frozen results

A section is a file in `frozen`. Networks and exponentials round differently on another processor: there, freeze at
the parent commit first.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.goldens.sections import FROZEN, SECTIONS, computed, first_difference, read


def main(words: list[str]) -> int:
    """Compare or freeze sections, two at a time. Returns the exit code."""
    freeze = words[:1] == ["freeze"]
    names, differ = words[freeze:] or SECTIONS, False
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1"}
    # A process a section: nothing that one loads or patches reaches another.
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
        for name, result in zip(names, pool.map(computed, names), strict=True):
            if freeze:
                FROZEN.mkdir(exist_ok=True)
                (FROZEN / f"{name}.json").write_text(json.dumps(result, indent=0) + "\n", encoding="utf-8")
            elif (difference := first_difference(read(name), result)) is not None:
                print(f"{name} differs: {difference}", flush=True)
                differ = True
            else:
                print(f"{name} agrees", flush=True)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
