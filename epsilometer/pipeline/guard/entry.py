"""How a stage's module is run as a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.pipeline import INTERRUPTED, RUNNER
from epsilometer.pipeline.guard.inputs import guarded
from epsilometer.pipeline.guard.parent import end_with_parent
from epsilometer.pipeline.guard.withholding import SHOW, report, where, withhold
from epsilometer.runtime.progress import say


def run(main: Callable[..., None]) -> None:
    """Call a stage with the command line's arguments; its inputs are checked, and it ends with its parent.

    A user's error and a disk's is one message and exit code 2, Ctrl-C one and 130. Any other error, whatever its kind,
    shows where it happened but not its message, which may quote a private text and would end in logs; neither is
    anything shown that mechanisms, attacks and libraries write. EPSILOMETER_SHOW_ERRORS=1 shows it all.
    """
    end_with_parent()
    data = Path("data")
    data.mkdir(exist_ok=True)
    data.chmod(0o700)  # private texts are in it
    written = withhold()
    try:
        with guarded():
            main(*sys.argv[1:])
    except UserError as error:
        say(f"error: {error}")
        code = 2
    except KeyboardInterrupt:
        if RUNNER not in os.environ:  # which says it for all stages
            say(INTERRUPTED)
        code = 130
    except BaseException as error:  # SystemExit too: with a text for its code, Python would print that
        if (trouble := disk_trouble(error)) is not None:
            stage = " ".join([os.path.basename(sys.argv[0]).removesuffix(".py"), *sys.argv[1:]])
            say(f"error: {stage}: {trouble}, then run again; what other stages made is kept")
            code = 2
        elif written is None:
            raise
        else:
            say(f"{where(error)}: message withheld, it may quote a private text; {SHOW}=1 shows it")
            code = 1
    else:
        code = 0
    report(written)
    if code:
        sys.exit(code)
