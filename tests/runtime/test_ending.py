"""Commands and stages end with the exit code of their work, even if a mechanism leaves threads or processes running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.processes import below
from tests.support.waiting import finished, wait_for

pytestmark = pytest.mark.usefixtures("interruptible")

MECHANISM = """
import subprocess, sys, threading, time

class Clings:
    def guarantee(self, epsilon):
        return None

    def rewrite(self, texts, epsilon, noise):
        {}
        from epsilometer.core.mechanism import Rewrites
        return Rewrites(list(texts))
"""
STAGE = """
import sys, threading, time
from epsilometer.pipeline.guard.entry import run

def main():
    {}

run(main, "stage")
"""
LEAVES = "threading.Thread(target=time.sleep, args=(600,)).start()"
SWALLOWS = """while True:
            try:
                open("begun", "w").close()
                time.sleep(600)
            except BaseException:
                pass"""
# The file is written once the call runs, as Python itself handles an interrupt that comes before it: another thread
# sees the line of the call only while the call has released the interpreter.
IN_C = """from hashlib import pbkdf2_hmac
        def note(caller, line):
            while caller.f_lineno != line:
                time.sleep(0.02)
            open("begun", "w").close()
        here = sys._getframe()
        threading.Thread(target=note, args=(here, here.f_lineno + 1), daemon=True).start()
        pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)"""


def started(folder: Path, body: str, what: str, seconds: int) -> subprocess.Popen[str]:
    """A stage or a command with such a mechanism, in a process group of its own."""
    if what == "stage":
        (folder / "stage.py").write_text(STAGE.format(body.replace("\n    ", "\n")))
        words = ["stage.py"]
    else:
        (folder / "clings.py").write_text(MECHANISM.format(body))
        (folder / "texts.txt").write_text("a b\nc d\ne f\n")
        words = ["-c", "from epsilometer.cli import main; main()", "rewrite", "texts.txt", "--mechanism", "clings.py",
                 "--epsilon", "1", "--out", "out.txt"]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EPSILOMETER_EXIT_SECONDS": str(seconds)}
    return subprocess.Popen([sys.executable, *words], cwd=folder, env=environment, text=True, start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip


def pending(number: int) -> bool:
    """Return true while a Ctrl-C waits for a process to take it: a second one would be lost."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except OSError:  # it has ended
        return False
    if re.search(r"^State:\s*[ZX]", status, re.MULTILINE):  # it has ended, and uses no resources
        return False
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.MULTILINE)
    return any(int(mask, 16) >> signal.SIGINT - 1 & 1 for mask in masks)


@pytest.mark.parametrize("what", ["stage", "command"])
def test_a_thread_that_is_left_behind_ends_with_the_work(tmp_path: Path, what: str) -> None:
    process = started(tmp_path, LEAVES, what, seconds=1)
    said = finished(process)[1]
    assert process.returncode == 0
    assert "left a thread or process running, which was ended" in said
    if what == "command":
        assert (tmp_path / "out.txt").read_text() == "a b\nc d\ne f\n"


@pytest.mark.parametrize("what", ["stage", "command"])
@pytest.mark.parametrize(("times", "seconds"), [(1, 1), (2, 600)], ids=["once", "twice"])
@pytest.mark.parametrize("body", [SWALLOWS, IN_C], ids=["swallowed", "in C"])
def test_a_mechanism_that_goes_on_after_ctrl_c_is_ended(
    tmp_path: Path, body: str, what: str, times: int, seconds: int
) -> None:
    """In C, Python's own handler of a signal does not run before the call returns."""
    process = started(tmp_path, body, what, seconds)
    wait_for("the mechanism's call", (tmp_path / "begun").exists, runs=process)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        group = [process.pid, *(child.pid for child in below(process))]
        wait_for("the arrival of Ctrl-C", lambda: not any(map(pending, group)))  # noqa: B023 - called at once
    said = finished(process)[1]
    assert process.returncode == 130
    assert "did not stop on Ctrl-C and was ended" in said


def test_an_interrupt_that_nobody_sent_is_an_error_of_what_is_audited(tmp_path: Path) -> None:
    """A gate with such a mechanism ended with 130 and without a line, as if somebody had stopped it."""
    process = started(tmp_path, "raise KeyboardInterrupt(texts[0])", "command", seconds=600)
    said = finished(process)[1]
    assert process.returncode == 2
    assert "error: KeyboardInterrupt in clings.py, line 9" in said


def test_ctrl_c_is_said(tmp_path: Path) -> None:
    process = started(tmp_path, 'open("begun", "w").close(); time.sleep(600)', "command", seconds=600)
    wait_for("the mechanism's call", (tmp_path / "begun").exists, runs=process)
    os.kill(process.pid, signal.SIGINT)  # the supervisor forwards the signal
    said = finished(process)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted"
