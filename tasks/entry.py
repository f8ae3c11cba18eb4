"""How a stage's module is run as a program."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from epsilometer.errors import UserError, disk_trouble
from tasks.inputs import guarded
from tasks.parent import end_with_parent


def run(main: Callable[..., None]) -> None:
    """Call a stage with the command line's arguments; its inputs are checked, and it ends with its parent.

    A user's error and a disk's is one message and exit code 2. Any other error shows where it happened but not its
    message, which may quote a private text and would end in logs; EPSILOMETER_SHOW_ERRORS=1 shows it all.
    """
    end_with_parent()
    try:
        with guarded():
            main(*sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if (trouble := disk_trouble(error)) is not None:
            stage = " ".join([os.path.basename(sys.argv[0]).removesuffix(".py"), *sys.argv[1:]])
            print(f"error: {stage}: {trouble}, then run again; what other stages made is kept", file=sys.stderr)
            sys.exit(2)
        if os.environ.get("EPSILOMETER_SHOW_ERRORS"):
            raise
        print(*traceback.format_tb(error.__traceback__), sep="", end="", file=sys.stderr)
        print(
            f"{type(error).__name__}: message withheld, it may quote a private text; "
            "set EPSILOMETER_SHOW_ERRORS=1 to see it",
            file=sys.stderr,
        )
        sys.exit(1)
