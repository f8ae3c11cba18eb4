"""The command line. An error gives exit code 2 and one message. Only results go to standard output.

A command is a function in the file of its group: it reads options, makes one call, and prints. Each command imports
heavy packages inside its function. So `epsilometer --help` answers at once, and each of the dozens of stages of an
audit starts fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from epsilometer.cli.supervised import supervised
from epsilometer.runtime.ending import INTERRUPTED
from epsilometer.runtime.progress import say
from epsilometer.runtime.streams import notes
from epsilometer.runtime.withholding import in_one_line, restore


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. With `arguments`, the command runs in this process, without a child process."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    run = partial(_run, words)
    if _own(words):
        sys.exit(run())
    if arguments is None:
        sys.exit(supervised(run))
    try:
        sys.exit(run())
    finally:
        restore()  # the caller continues in this process


def _run(words: Sequence[str]) -> int:
    """Run a command and return its exit code. Every error gives 2, whatever its cause; 1 and 3 are findings.

    Ctrl-C gives 130, and a closed standard output gives 141.
    """
    try:
        if (code := _call(words)) == INTERRUPTED:  # typer's code for Ctrl-C
            raise KeyboardInterrupt
        return code
    except KeyboardInterrupt:  # Ctrl-C before or after typer's own handling
        say("interrupted")
        return INTERRUPTED
    except BaseException as error:
        if isinstance(error, SystemExit):
            if _own(words):
                raise
            if isinstance(error.__context__, BrokenPipeError):  # the reader of standard output has closed it
                return 141
        if show := getattr(error, "show", None):  # typer's error for a wrong option
            show(notes())
        elif isinstance(error, PermissionError):
            say(f"error: no permission to read or write {error.filename}; change its permissions")
        else:
            say(f"error: {in_one_line(error)}")
        return 2


def _own(words: Sequence[str]) -> bool:
    """Return True if a command runs stages. Such a command ends its own processes and reports its own errors."""
    first, *others = [word for word in words if not word.startswith("-")] or [""]
    return (others[:1] if first == "pipeline" else [first]) in (["stage"], ["repro"])


def _call(words: Sequence[str]) -> int:
    if words[:1] == ["stage"] and len(words) in (2, 3) and not words[1].startswith("-"):
        from epsilometer.pipeline.guard.entry import stage

        stage(*words[1:])
        return 0
    from epsilometer.cli.app import app
    from epsilometer.core.file_names import names_shown

    with names_shown(sys.stderr.isatty()):
        return int(app(words, standalone_mode=False) or 0)
