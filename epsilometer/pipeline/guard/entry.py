"""Run a stage as a program: `epsilometer stage NAME [ENTRY]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from epsilometer.core.errors import UserError, disk_trouble, unknown
from epsilometer.core.file_names import names_shown
from epsilometer.pipeline import INTERRUPTED, RUNNER, bodies, module, why
from epsilometer.pipeline.dvc_files import dvc_pauses, entries, lock, settings, stages
from epsilometer.pipeline.guard.inputs import guarded
from epsilometer.pipeline.guard.parent import end_with_parent
from epsilometer.project.site_cache import keep_private
from epsilometer.runtime.batches import recorded
from epsilometer.runtime.confining import confine
from epsilometer.runtime.ending import end_in_time, heed_interrupts
from epsilometer.runtime.progress import say
from epsilometer.runtime.withholding import WHY, report, shows, traceback_of, withhold

_SHOWN = 5  # reasons shown for a run


def stage(name: str, *arguments: str) -> None:
    """Run a stage, or one entry of a stage that has entries.

    arguments: the entry. Raises UserError for a stage that dvc.yaml lacks, and for an entry that is missing, unknown or
    without effect.
    """
    if name not in (files := bodies()):
        raise unknown("stage", name, files)
    _check_entry(name, arguments)
    body(name, *arguments)


def body(name: str, *arguments: str) -> None:
    """Run the module of a stage, or of `calibrate`, which only a flow runs."""
    file = bodies()[name]

    def main(*arguments: str) -> None:
        import_module(module(file)).main(*arguments)

    run(main, " ".join([name, *arguments]), *arguments)


def _check_entry(name: str, arguments: Sequence[str]) -> None:
    if not Path("dvc.yaml").is_file():
        from epsilometer.project.params import NO_PROJECT

        raise UserError(f"this folder has no dvc.yaml; {NO_PROJECT}", "EPS-P031")
    if name not in (here := stages()):
        raise unknown("stage in dvc.yaml", name, here)
    if (keys := entries(here[name], settings())) is None:
        if arguments:
            raise UserError(f"stage {name} has no entries, got {' '.join(arguments)!r}; omit the argument", "EPS-P032")
    elif not arguments:
        raise UserError(f"stage {name} has several entries; name one of them: {', '.join(keys)}", "EPS-P033")
    elif arguments[0] not in keys:
        raise unknown(f"entry of stage {name}", arguments[0], keys)


def run(main: Callable[..., None], label: str, *arguments: str) -> None:
    """Run a stage's work, with its inputs checked, in a process that ends with its parent.

    An error of the user or the disk gives one message and exit code 2; Ctrl-C gives one message and exit code 130.
    Other errors show only their place, because their messages may quote a private text and would reach logs. For the
    same reason, output of mechanisms, attacks and libraries is hidden. EPSILOMETER_SHOW_ERRORS=1 shows everything.
    """
    end_with_parent()
    heed_interrupts()
    confine()
    data = Path("data")
    data.mkdir(exist_ok=True)
    data.chmod(0o700)  # it contains private texts
    withhold()
    try:
        if "DVC_ROOT" in os.environ:  # DVC runs the stage, perhaps by another command than `repro`
            keep_private(Path(os.environ["DVC_ROOT"]))
        _say_why()
        with names_shown(False), guarded(), recorded("/".join(label.split())):
            main(*arguments)
    except UserError as error:
        say(f"error: {error}")
        code = 2
    except KeyboardInterrupt:
        if RUNNER not in os.environ:  # otherwise the runner prints this line once for all stages
            say(INTERRUPTED)
        code = 130
    except BaseException as error:  # also SystemExit: Python would print its code, which may be a text
        if (trouble := disk_trouble(error)) is not None:
            say(f"error: {label}: {trouble}, then run again; results of other stages are kept")
            code = 2
        elif shows():
            raise
        else:
            say(f"{traceback_of(error)}: message {WHY}")
            code = 1
    else:
        code = 0
    report()
    end_in_time(code)
    if code:
        sys.exit(code)


def _say_why() -> None:
    """Print what has changed since a stage last ran, if DVC runs it again."""
    if "DVC_STAGE" not in os.environ:
        return
    stage = os.environ["DVC_STAGE"].rpartition(":")[2]
    with dvc_pauses():
        last = lock().get(stage)
    reasons = why.inputs(stage, last) if last is not None else []
    for line in reasons[:_SHOWN]:
        say(f"why: {line}")
    if len(reasons) > _SHOWN:
        say(f"why: and {len(reasons) - _SHOWN} more; `epsilometer pipeline why {stage}` before a run lists all")


if __name__ == "__main__":
    body(*sys.argv[1:])
