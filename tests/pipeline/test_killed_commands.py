"""Kills of `anonymize`, of a leaderboard's cell and of a re-audit: each, run again, ends with the bytes of an
undisturbed run.

SIGKILL and SIGTERM come in turn, at moments that a seeded generator draws from the time of an undisturbed run.
EPSILOMETER_KILLS sets how many each test sends.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import psutil
import pytest

from epsilometer.pipeline import profiles
from epsilometer.project import times
from epsilometer.reaudit import history
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.processes import OUTSIDE, below, command, wait_for_end
from tests.support.toy import Toy
from tests.support.waiting import finished, pause, wait_for

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("EPSILOMETER_KILLS", "2"))
SIGNALS = (signal.SIGKILL, signal.SIGTERM)

DVCS = ("dvc.lock",)  # grows with each stage, and is DVC's to write: test_half_a_record_is_put_aside

Results = dict[str, bytes]


@dataclass
class Job:
    """A command in a folder that is put back before each kill.

    begins: time counts from the start of a process below the command whose words hold this; from its own by default.
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
        """Put the folder back, run the command and send it the signal. Returns False where it ended before."""
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
        """resumed: the command that goes on after a kill, where that depends on what the killed one had done."""
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
    """The bytes of all files in these folders, without hidden ones."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in ([folder] if folder.is_file() else folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and not path.is_relative_to(folder / times.FOLDER.name)
    }


def test_anonymize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also while it trains and writes the auxiliaries."""
    folder = tmp_path / "texts"
    folder.mkdir()
    marks = [("lovely", "F"), ("solid", "M")]
    rows = [(f"a {mark} thing of {i} parts", gender) for i in range(60) for mark, gender in marks]
    pl.DataFrame(rows, schema=["text", "gender"], orient="row").write_csv(folder / "train.csv")
    pl.DataFrame({"text": [text for text, _ in rows]}).write_csv(folder / "texts.csv")
    (folder / "out.csv").write_text("an earlier result\n")
    words = ("anonymize", "texts.csv", "--attribute", "gender", "--labelled", "train.csv", "--mechanism", "idt",
             "--auxiliaries", "auxiliaries", "--out", "out.csv", "--seed", "3")  # fmt: skip
    results = lambda: files(folder / "out.csv", folder / "auxiliaries")  # noqa: E731
    Job(folder, (sys.executable, "-m", "epsilometer.cli", *words), results, OUTSIDE).try_all(capsys)


BOARD = """\
title: A board
audit: {seed: 0, round: 0, alpha: 0.01}
datasets:
  requests:
    source: epsilometer/corpora/synthetic.py
    part: queries
    count: 560
    labels: [intent]
    public: true
    public_part: 0.15
leaderboard:
  losses: [1]
  datasets: {requests: {task: intent, texts: 60, tested: 20, sets: 3}}
  mechanisms:
    exemplars: {resource: public, epsilons: [0.05, 20], settings: {m: 16}}
"""


def test_a_cell_of_the_leaderboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, cell = tmp_path / "board", "leaderboard_cells@requests-exemplars-1"
    folder.mkdir()
    make_project(folder)
    (tmp_path / "board.yaml").write_text(BOARD)
    with chdir(ROOT):
        profiles.copy(tmp_path / "board.yaml", folder / "params.yaml")
    run = lambda *words: subprocess.run(words, cwd=folder, env=OUTSIDE, check=True, capture_output=True)  # noqa: E731
    run(sys.executable, "-m", "epsilometer.pipeline.repro", "leaderboard_parts@requests")
    results = lambda: files(folder / "data", folder / "dvc.lock")  # noqa: E731
    Job(folder, ("dvc", "repro", cell), results, OUTSIDE).try_all(capsys)


LEAKS = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < {} else 'play'\n"


def test_a_re_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fresh one. Where the killed one has added its line to the history, it is run again for the rest, not fresh."""
    toy = Toy(tmp_path / "toy")
    folder = toy.folder
    (folder / "mine.py").write_text(LEAKS.format(0.5))
    toy.params["cells"] = {"songs-mine": {"dataset": "songs", "mechanism": "mine", "file": "mine.py", "epsilons": [1]}}
    toy.params["attacks"] = {"lexical": {}}
    toy.write_params()
    toy.run(sys.executable, "-m", "epsilometer.pipeline.repro")
    toy.run(sys.executable, "-m", "epsilometer.cli", "accept")
    (folder / "mine.py").write_text(LEAKS.format(0.97))

    def results() -> Results:
        """Of the history all but dates, each audit once."""
        audits = history.read(folder / history.FILE).drop("date").unique(maintain_order=True)
        others = files(folder / "data", folder / "dvc.lock", folder / "params.yaml", folder / "sources")
        return {**others, "history": audits.write_csv().encode()}

    def resumed() -> tuple[str, ...]:
        return words[:3] if 1 in history.read(folder / history.FILE)["round"] else words

    words = (sys.executable, "-m", "flows.reaudit", "--fresh")
    job = Job(folder, words, results, toy.environment, codes=(1,), begins="epsilometer stage")
    assert "round: 1" in (folder / "params.yaml").read_text()
    job.try_all(capsys, resumed)
