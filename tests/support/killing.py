"""Commands that are killed at random moments and run again. No assertion depends on the time that a command takes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from epsilometer.project import times
from tests.support.processes import below, command, wait_for_end
from tests.support.waiting import finished, pause, wait_for

KILLS = int(os.environ.get("EPSILOMETER_KILLS", "2"))
SIGNALS = (signal.SIGKILL, signal.SIGTERM)

DVCS = ("dvc.lock",)  # DVC extends this file after each stage; see test_half_a_record_is_put_aside

Results = dict[str, bytes]


@dataclass
class Job:
    """A command in a folder, which is restored before each kill.

    begins: time counts from the start of a child process whose command line contains this text; by default from the
    start of the command.
    """

    folder: Path
    words: tuple[str, ...]
    results: Callable[[], Results]
    environment: Mapping[str, str]
    codes: tuple[int, ...] = (0,)
    begins: str = ""

    def __post_init__(self) -> None:
        self.before = self.folder.with_name(f"{self.folder.name} before")
        shutil.copytree(self.folder, self.before, symlinks=True)
        self.earlier = self.results()
        process = self.start()
        self.wait(process)
        begun = time.monotonic()
        self.finish(process)
        self.seconds = time.monotonic() - begun
        self.expected = self.results()
        assert self.expected != self.earlier

    def start(self, words: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words or self.words,
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait(self, process: subprocess.Popen[str]) -> None:
        if self.begins:
            wait_for(self.begins, lambda: any(self.begins in command(p) for p in below(process)), runs=process)

    def finish(self, process: subprocess.Popen[str]) -> None:
        said, _ = finished(process)
        assert process.returncode in self.codes, said

    def kill(self, number: signal.Signals, moment: float) -> bool:
        """Restore the folder, run the command and send it the signal. Return False if it ended before the signal."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.before, self.folder, symlinks=True)
        process, started = self.start(), set[psutil.Process]()
        self.wait(process)
        end = time.monotonic() + moment * self.seconds
        while process.poll() is None and time.monotonic() < end:
            started.update(below(process))
            pause(0.02)
        hit = process.poll() is None
        started.update(below(process))
        process.send_signal(number)
        finished(process)
        wait_for_end(started)
        return hit

    def try_all(self, capsys: pytest.CaptureFixture[str], resumed: Callable[[], tuple[str, ...]] = tuple) -> None:
        """Kill the command several times, and check that each rerun gives the same results.

        resumed: returns the command to run after a kill, if that depends on the progress of the killed command.
        """
        draw = random.Random(2027)
        for number in range(KILLS):
            sent = SIGNALS[number % 2]
            while not self.kill(sent, moment := draw.uniform(0, 1)):
                pass
            left = self.results()
            for name, content in left.items():
                if Path(name).name not in DVCS:
                    assert content in (self.earlier.get(name), self.expected.get(name)), name
            self.finish(self.start(resumed()))
            assert self.results() == self.expected
            with capsys.disabled():
                done = sum(left.get(name) == content for name, content in self.expected.items())
                print(
                    f"\nkill {number + 1}: {sent.name} at {moment:.0%} of {self.seconds:.0f} s, {done} of "
                    f"{len(self.expected)} files were there; same bytes",
                    end="",
                    flush=True,
                )


def files(*folders: Path) -> Results:
    """Return the bytes of all files in these folders, except hidden files."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in ([folder] if folder.is_file() else folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and not path.is_relative_to(folder / times.FOLDER.name)
    }
