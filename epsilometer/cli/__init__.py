"""The command line. A user's error ends with exit code 2 and one message; results go to standard output, notes do not.

A command is a function in the file of its group: it reads options, makes one call, and prints. Heavy imports stand in
the commands, so that `epsilometer --help` answers at once, and a stage, of which an audit starts dozens, loads no other
command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.core.extras import missing


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point `epsilometer`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == ["stage"] and len(words) in (2, 3) and not words[1].startswith("-"):
            from epsilometer.pipeline.guard.entry import stage

            stage(*words[1:])
        else:
            from epsilometer.cli.app import app
            from epsilometer.core.file_names import SHOW, names_shown

            with names_shown(sys.stderr.isatty() or bool(os.environ.get(SHOW))):
                app(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (advice := missing(error)) is None:
            raise
        print(f"error: {advice}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        denied = f"{error.filename} may not be read or written; change its permissions"
        trouble = denied if isinstance(error, PermissionError) else disk_trouble(error)
        if trouble is None:
            raise
        print(f"error: {trouble}, then run again", file=sys.stderr)
        sys.exit(2)
