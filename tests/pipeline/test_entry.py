"""The messages of a stage that succeeds and of one that fails, each in a separate process, as DVC runs it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from epsilometer.pipeline import INTERRUPTED
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT

SECRET = "zyxomma petiolatum"

STAGE = """
import os, sys, threading, warnings
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import say
from epsilometer.pipeline.guard.entry import run

text = "zyxomma petiolatum"

def main(*arguments):
    say("about to rewrite")
    {}

run(main, "stage", *sys.argv[1:])
"""


def stage(folder: Path, body: str, show: bool = False) -> subprocess.CompletedProcess[str]:
    (folder / "stage.py").write_text(STAGE.format("\n    ".join(body.splitlines())))
    environment = {name: value for name, value in os.environ.items() if name != "EPSILOMETER_SHOW_ERRORS"}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"EPSILOMETER_SHOW_ERRORS": "1"} if show else {})
    return subprocess.run(
        [sys.executable, "stage.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=LAST_RESORT
    )


def test_a_users_error_is_one_line(tmp_path: Path) -> None:
    done = stage(tmp_path, "raise UserError('k must be >= 2, got 1')")
    assert done.returncode == 2
    assert done.stderr == "about to rewrite\nerror: k must be >= 2, got 1\n"


def test_a_users_error_quotes_no_word_of_a_misread_file(tmp_path: Path) -> None:
    (tmp_path / "songs.csv").write_text(f"{SECRET},a\nb,c\n")
    body = "from epsilometer.corpora.reading import read\nread('songs.csv')"
    done = stage(tmp_path, body)
    assert done.returncode == 2
    assert "songs.csv has 2 columns" in done.stderr
    assert SECRET not in done.stderr
    assert SECRET in stage(tmp_path, body, show=True).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rewrite", "stage rewrite has several entries; name one of them: songs-tem, songs-mvc"),
        ("rewrite songs-tom", "unknown entry of stage rewrite 'songs-tom'; did you mean 'songs-tem'?"),
        ("rewrite zzz", "unknown entry of stage rewrite 'zzz'; known: songs-mvc, songs-tem"),
        ("report songs-tem", "stage report has no entries, got 'songs-tem'; omit the argument"),
        ("exact songs-tem", "unknown stage in dvc.yaml 'exact'; known: report, rewrite"),
        ("exactt", "unknown stage 'exactt'; did you mean 'exact'?"),
    ],
)
def test_an_entry_that_is_missing_or_unknown_is_named(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("cells: {songs-tem: {}, songs-mvc: {}}")
    rewrite = {"foreach": "${cells}", "do": {"cmd": "epsilometer stage rewrite ${key}"}}
    stages = {"rewrite": rewrite, "report": {"cmd": "epsilometer stage report"}}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, out, err = call(capsys, "stage", *words.split())
    assert (code, out, err.partition(" [EPS-")[0]) == (2, "", f"error: {said}")
    (tmp_path / "dvc.yaml").unlink()
    assert call(capsys, "stage", "rewrite", "songs-tem")[2].startswith("error: this folder has no dvc.yaml")


RAISES = {
    "an error": "raise ValueError(text)",
    "lines": "raise ValueError('two\\n' + text)",
    "an exit": "sys.exit(text)",
    "its class": "raise type(text, (ValueError,), {})('x')",
    "the line": "raise ValueError('zyxomma petiolatum')",
    "no exception": "raise type('Own', (BaseException,), {})(text)",
    "a cause": "try:\n    raise ValueError(text)\nexcept ValueError as error:\n    raise RuntimeError('x') from error",
    "a context": "try:\n    raise ValueError(text)\nexcept ValueError:\n    raise RuntimeError('x')",
    "a note": "error = ValueError('x')\nerror.add_note(text)\nraise error",
    "generated code that is named by the text": "exec(compile('def f(): raise ValueError(1)\\nf()', text, 'exec'))",
    "a group": "raise ExceptionGroup('x', [ValueError(text), ExceptionGroup(text, [KeyError(text)])])",
}
WRITES = {
    "a warning": "warnings.warn(text)",
    "standard error": "print(text, file=sys.stderr)",
    "standard output": "print(text)",
    "native code": "os.write(2, text.encode())",
    "a program": "os.system(f'echo {text} >&2')",
    "a thread": "def broken():\n    raise ValueError(text)\nthread = threading.Thread(target=broken)\n"
    "thread.start()\nthread.join()",
    "at exit": "import atexit\natexit.register(lambda: print(text, file=sys.stderr))",
}


@pytest.mark.parametrize("body", RAISES.values(), ids=RAISES)
def test_what_is_raised_keeps_private_text_to_itself(tmp_path: Path, body: str) -> None:
    done = stage(tmp_path, body)
    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr
    assert "about to rewrite" in done.stderr
    assert "stage.py" in done.stderr, "where it happened is shown"
    assert "message withheld" in done.stderr


@pytest.mark.parametrize("body", WRITES.values(), ids=WRITES)
def test_what_is_written_keeps_private_text_to_itself(tmp_path: Path, body: str) -> None:
    done = stage(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert "about to rewrite" in done.stderr
    if "atexit" not in body:
        assert "bytes of other output are withheld" in done.stderr


@pytest.mark.parametrize("body", [RAISES["a note"], WRITES["standard output"]], ids=["raised", "written"])
def test_all_is_shown_on_demand(tmp_path: Path, body: str) -> None:
    done = stage(tmp_path, body, show=True)
    assert SECRET in done.stdout + done.stderr


def test_an_interrupt_is_one_line(tmp_path: Path) -> None:
    done = stage(tmp_path, "raise KeyboardInterrupt(text)")
    assert done.returncode == 130
    assert done.stderr.splitlines()[1:] == [INTERRUPTED]


def test_a_crash_leaves_no_memory_behind(tmp_path: Path) -> None:
    """Also of a program that the stage runs, and where the user's limit allows a core dump."""
    body = "import resource, subprocess\nassert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)\n"
    body += "subprocess.run([sys.executable, '-c', 'import os; os.abort()'])\nos.abort()"
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        done = stage(tmp_path, body)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"data", "stage.py"}


def test_no_other_user_reads_what_stages_write(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    assert stage(tmp_path, "pass").returncode == 0
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
