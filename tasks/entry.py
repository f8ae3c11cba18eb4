"""How a stage's module is run as a program."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from epsilometer.errors import UserError


def run(main: Callable[..., None]) -> None:
    """Call a stage with the command line's arguments.

    A user's error is one message and exit code 2. Any other error shows where it happened but not its message, which
    may quote a private text and would end in logs; EPSILOMETER_SHOW_ERRORS=1 shows it all.
    """
    try:
        main(*sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("EPSILOMETER_SHOW_ERRORS"):
            raise
        print(*traceback.format_tb(error.__traceback__), sep="", end="", file=sys.stderr)
        print(
            f"{type(error).__name__}: message withheld, it may quote a private text; "
            "set EPSILOMETER_SHOW_ERRORS=1 to see it",
            file=sys.stderr,
        )
        sys.exit(1)
