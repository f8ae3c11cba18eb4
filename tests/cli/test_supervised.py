"""Only a command that reports its own end counts as ended."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT, finished, wait_for

pytestmark = pytest.mark.usefixtures("interruptible")

PROGRAM = """
import os, pathlib, signal, sys, time
from epsilometer.cli.supervised import supervised

def work():
    {}

sys.exit(supervised(work))
"""
# The process that is left behind holds the pipes of both until the test has seen the error.
LEFT_BEHIND = """if not os.fork():
        signal.alarm(LAST_RESORT)
        while not os.path.exists('seen'): time.sleep(0.02)
        os._exit(0)
    os._exit(0)"""
WAITS = "pathlib.Path('part').write_text(str(os.getpid())); os.replace('part', 'pid'); time.sleep(LAST_RESORT)"


# A process that returns from the fork only after Ctrl-C has arrived.
SLOW_FORK = """
import os, signal, time
fork = os.fork

def slow():
    child = fork()
    while child and signal.SIGINT not in signal.sigpending():
        time.sleep(0.02)
    return child

os.fork = slow
"""


def started(folder: Path, body: str, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", before + PROGRAM.format(body.replace("LAST_RESORT", f"{LAST_RESORT:.0f}"))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # without a terminal, because its Ctrl-C would reach both processes
    )


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_a_command_ends_with_its_own_code(tmp_path: Path, code: int) -> None:
    process = started(tmp_path, f"print('said'); return {code}")
    assert finished(process) == ("said\n", "")
    assert process.returncode == code


def test_a_crash_leaves_no_memory_behind(tmp_path: Path) -> None:
    process = started(tmp_path, "import resource; return resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)")
    finished(process)
    assert process.returncode == 0


@pytest.mark.parametrize(
    "body",
    ["os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), signal.SIGSEGV)", "os.abort()", LEFT_BEHIND],
    ids=["like a pass", "like a leak", "a crash", "an abort", "leaving a process behind"],
)
def test_one_that_does_not_say_how_is_an_error(tmp_path: Path, body: str) -> None:
    process = started(tmp_path, body)
    line = process.stderr.readline() if process.stderr else ""
    assert process.wait(LAST_RESORT) == 2
    assert "without a result" in line
    (tmp_path / "seen").touch()


def test_what_is_written_after_the_result_is_withheld(tmp_path: Path) -> None:
    """By handlers at exit and by threads that go on: it may be a text. Nor are core dumps, which hold texts."""
    body = (
        "import atexit, resource, threading\n"
        "    atexit.register(lambda: (print('text'), print('text', file=sys.stderr), os.write(1, b'text')))\n"
        "    main = threading.main_thread()\n"
        "    threading.Thread(target=lambda: (main.join(), os.write(2, b'text'))).start()\n"
        "    print(resource.getrlimit(resource.RLIMIT_CORE))\n"
        "    return 0"
    )
    assert finished(started(tmp_path, body)) == ("(0, 0)\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_both_processes(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, WAITS)
    wait_for("the command's work", (tmp_path / "pid").exists, runs=process)
    process.send_signal(number)
    assert process.wait(LAST_RESORT) == -number
    inner = Path(f"/proc/{(tmp_path / 'pid').read_text()}")
    wait_for("the end of the inner process", lambda: not inner.exists())


def test_ctrl_c_before_the_outer_process_is_ready_ends_both(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS, SLOW_FORK)
    wait_for("the command's work", (tmp_path / "pid").exists, runs=process)
    process.send_signal(signal.SIGINT)
    _, errors = finished(process)
    assert process.returncode == -signal.SIGINT
    assert "in slow" not in errors, "the outer process has no traceback"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of processes")
def test_what_a_command_starts_is_bounded(tmp_path: Path) -> None:
    process = started(tmp_path, "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[1]); return 0")
    said, _ = finished(process)
    before = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    assert 4096 < int(said) < (1 << 40 if before == resource.RLIM_INFINITY else before)
