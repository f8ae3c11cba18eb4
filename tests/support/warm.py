"""Commands of a project in forks of one process, which has already loaded the packages that they import.

Each command is still a separate process, and so is each stage that DVC runs for it. These processes load the project's
own files anew. This module is for tests of what commands do. Tests of how commands start, or end by a signal, must
start commands like a user.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

PACKAGES = (
    *("networkx", "numpy", "polars", "psutil", "pydantic", "pyparsing", "ruamel.yaml", "tqdm", "typer", "yaml"),
    *("scipy.optimize", "scipy.special", "scipy.stats"),
    *("dvc.cli.parser", "dvc.dvcfile", "dvc.repo", "dvc.stage.run", "scmrepo.git"),
)


class Warm:
    """The process that runs commands, for any number of projects."""

    @staticmethod
    def runs(words: Sequence[str]) -> bool:
        """Return whether this process can run a command."""
        return words[0] in ("dvc", "epsilometer") or tuple(words[:2]) == ("python", "-m")

    def __init__(self) -> None:
        from tests.support.waiting import LAST_RESORT  # the process runs this file as a program, without it

        self._seconds = int(LAST_RESORT)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], errors: bool = True
    ) -> tuple[int, str]:
        """Run a command, and return its exit code and output.

        errors: whether the output of a successful command includes standard error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([words, str(folder), dict(environment), errors]), file=self._process.stdin, flush=True)
        code, said, beside = json.loads(self._process.stdout.readline())
        assert code != -signal.SIGALRM, f"{words} did not end within {self._seconds} s; it wrote {said}{beside}"
        return code, said + beside if code else said

    def close(self) -> None:
        self._process.communicate()


def _serve() -> None:
    sys.path.remove(str(Path(__file__).parent))  # some of its modules have the names of other modules
    for name in PACKAGES:
        import_module(name)
    assert "epsilometer" not in sys.modules, "each project has its own"
    for line in sys.stdin:
        words, folder, environment, errors = json.loads(line)
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as beside:
            code = _forked(words, folder, environment, (said.fileno(), (said if errors else beside).fileno()))
            texts = [file.seek(0) or file.read().decode() for file in (said, beside)]
            print(json.dumps([code, *texts]), flush=True)


def _forked(words: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int] = ()) -> int:
    """Run a command in a fork of this process, and return its exit code."""
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        code = 1
        try:
            if streams:
                signal.alarm(int(sys.argv[1]))
                for here, there in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
                    os.dup2(there, here)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            code = _called(*words)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _called(program: str, *arguments: str) -> int:
    """Run a command in this process, and return its exit code."""
    from dvc.stage import run

    run._run = partial(_run_stage, run._run)
    invalidate_caches()
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.argv = [program, *arguments]
    try:
        if program == "dvc":
            from dvc.cli import main

            return main([*arguments])
        if program == "epsilometer":
            import_module("epsilometer.cli").main([*arguments])
        elif arguments[0] == "-m":
            sys.argv = [*arguments[1:]]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [*arguments]
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _run_stage(start: Callable[..., None], executable: str, cmd: str, **how: Any) -> None:
    """Run a stage's command in a fork if it needs no shell, else by `start`, DVC's own function."""
    from dvc.stage.exceptions import StageCmdFailedError

    if not re.fullmatch(r"(epsilometer|python [\w.]+\.py\b)[\w .@/-]*", cmd):
        start(executable, cmd, **how)
    elif code := _forked(cmd.split(), how["cwd"], how["env"]):
        raise StageCmdFailedError(cmd, code)


if __name__ == "__main__":
    _serve()
