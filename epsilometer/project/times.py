"""The processor time of each stage in its last run in the current folder.

DVC keeps no such record, and a stage whose outs came from DVC's cache took no time here. No stage has this
record as an out, because equal outs may take different times.
"""

from __future__ import annotations

import os
from pathlib import Path

from epsilometer.core.atomic import read_json, write_json

FOLDER = Path("data/times")


def spent() -> float:
    """Return the seconds of processor time of this process, and of the child processes that it has waited for."""
    time = os.times()
    return round(time.user + time.system + time.children_user + time.children_system, 1)


def write(stage: str) -> None:
    """Record the processor time of a stage (`rewrite@queries-tem`) that has just ended in this process."""
    write_json({"stage": stage, "seconds": spent()}, FOLDER / f"{stage.replace('@', '/', 1)}.json")


def read() -> dict[str, float]:
    """Return the seconds of processor time of each stage that ran here, in the order of their names."""
    records = [read_json(path) for path in FOLDER.rglob("*.json")]
    return dict(sorted((str(record["stage"]), float(record["seconds"])) for record in records))
