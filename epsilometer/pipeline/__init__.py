"""One thin module per DVC stage: parse, read, call, write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from epsilometer.core.component import PACKAGE
from epsilometer.core.study import studies

# Stages may share the cores; threads that busy-wait then take several times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def bodies() -> dict[str, Path]:
    """Return the file of each stage's body, by the stage's name: those of the core and of studies."""
    folders = [PACKAGE / "pipeline", *(study.folder for study in studies())]
    return {file.stem: file for folder in folders for file in sorted(folder.glob("stages/[!_]*.py"))}


def module(body: Path) -> str:
    """Return the name of a body's module."""
    package = next((study.package for study in studies() if body.is_relative_to(study.folder)), __name__)
    return f"{package}.stages.{body.stem}"


RUNNER = "EPSILOMETER_RUNNER"  # environment: the process that brings stages up to date, for the stages that it starts
INTERRUPTED = "interrupted: what the finished stages made is kept; run the same again to go on from there"


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line instead of a stack for Ctrl-C while modules load; if there is a runner, it prints the line."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    elif RUNNER not in os.environ:
        print(INTERRUPTED, file=sys.stderr)


sys.excepthook = _one_line
