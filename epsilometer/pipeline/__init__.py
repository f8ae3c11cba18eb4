"""The DVC stages, each in a thin module, and the programs that compose, run, check and show the stages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from epsilometer.core.component import PACKAGE
from epsilometer.core.study import studies

# Stages may share the cores, and would then take several times as long if waiting threads kept the cores busy.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def bodies() -> dict[str, Path]:
    """Return the file with the code of each stage, by the stage's name, for stages of the core and of studies."""
    folders = [PACKAGE / "pipeline", *(study.folder for study in studies())]
    return {file.stem: file for folder in folders for file in sorted(folder.glob("stages/[!_]*.py"))}


def module(body: Path) -> str:
    """Return the name of the module in a file that `bodies` returns."""
    package = next((study.package for study in studies() if body.is_relative_to(study.folder)), __name__)
    return f"{package}.stages.{body.stem}"


RUNNER = "EPSILOMETER_RUNNER"  # environment variable of stages: id of the process that started them
INTERRUPTED = "interrupted: results of finished stages are kept; run the same command again to continue"


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line instead of a stack trace after Ctrl-C while modules load. A runner prints this line once."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    elif RUNNER not in os.environ:
        print(INTERRUPTED, file=sys.stderr)


sys.excepthook = _one_line
