"""The origin of a stage's results that are stored in git: commit, date and machine.

DVC records the inputs and outputs of a stage. The commit and the machine also matter for results that took hours. The
runner of stages records this origin for outs that DVC does not cache (`cache: false` in dvc.yaml). The record is valid
as long as the outs have the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from epsilometer.core.atomic import read_json, write_json
from epsilometer.project.commit import commit
from epsilometer.project.times import spent
from epsilometer.runtime.machine import hardware

FOLDER = Path("data/origins")


@dataclass(frozen=True)
class Origin:
    """The origin of a stage's outs.

    commit: as in `Commit.short`. date: the end of the stage, UTC. hardware: processor, cores and memory. seconds: the
    processor time of all processes of the stage.
    """

    commit: str
    date: str
    hardware: str
    seconds: float


def write(stage: str, outs: Iterable[str]) -> None:
    """Record that a stage (`leaderboard_cells@snips-tem-1`) has just made these files, in this process."""
    now = Origin(commit(Path()).short, f"{datetime.now(UTC):%Y-%m-%d %H:%M}", hardware(), spent())
    write_json(asdict(now) | {"outs": {out: _digest(out) for out in outs}}, _path(stage))


def read(stage: str) -> Origin | None:
    """Return the origin of the outs of a stage in the current folder; None without a valid record."""
    if not _path(stage).is_file():
        return None
    record = read_json(_path(stage))
    outs = record.pop("outs")
    if any(not Path(out).is_file() or _digest(out) != digest for out, digest in outs.items()):
        return None
    return Origin(**record)


def _digest(out: str) -> str:
    with Path(out).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _path(stage: str) -> Path:
    name, _, entry = stage.partition("@")
    return FOLDER / name / f"{entry or name}.json"
