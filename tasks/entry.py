"""How a stage's module is run as a program."""

from __future__ import annotations

import sys
from collections.abc import Callable

from epsilometer.errors import UserError


def run(main: Callable[..., None]) -> None:
    """Call a stage with the command line's arguments; a user's error is one message and exit code 2."""
    try:
        main(*sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
