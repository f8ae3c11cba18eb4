"""Skip a run of `code` or `resources` that would write the existing records again.

DVC runs these stages every time, each in a process of its own that spends most of its time on imports. This module
computes their records in the present process instead. If the records equal the files that dvc.lock lists, and DVC finds
the stage's inputs unchanged, a run would change neither the files nor dvc.lock. Plain `dvc repro` still runs both
stages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from epsilometer.core.errors import UserError
from epsilometer.pipeline import composing
from epsilometer.pipeline.dvc_files import digest_of_record, listing
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import code, resources
from epsilometer.project.remembered import remembered

_RECORDERS = {"code": code, "resources": resources}


class DVCStage(Protocol):
    """A stage as DVC has read it from dvc.yaml."""

    addressing: str
    always_changed: bool

    def changed(self) -> bool:
        """Return True if DVC would run the stage."""
        ...


def unchanged(stage: DVCStage) -> bool:
    """Return True if this stage would write its present outs again. The project must be locked."""
    recorder = _RECORDERS.get(stage.addressing)
    if recorder is None or _changed_for_dvc(stage):
        return False
    try:
        params = read()
        composing.check(params)
        with remembered(Path(params.root)):
            records = recorder.records(params)
    except UserError:
        return False  # the process that runs the stage reports the error
    now = {path.relative_to(recorder.FOLDER).as_posix(): digest_of_record(record) for path, record in records.items()}
    return now == listing(str(recorder.FOLDER))


def _changed_for_dvc(stage: DVCStage) -> bool:
    """Return True if DVC would run the stage even without the setting `always_changed`."""
    always, stage.always_changed = stage.always_changed, False
    try:
        return stage.changed()
    finally:
        stage.always_changed = always
