"""`epsilometer watch`: what starts a re-audit, what is only reported, and bad input."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epsilometer.core.errors import UserError
from epsilometer.pipeline import watching
from epsilometer.pipeline.measured import sources as current
from epsilometer.pipeline.params import read
from epsilometer.pipeline.watching import Watch, alone, newer_packages
from epsilometer.reaudit import baseline, history, sources
from epsilometer.reaudit.sources import Source
from tests.support.commands import call
from tests.support.refusals import refused
from tests.support.toy import Toy
from tests.support.waiting import finished, wait_for

MINE = "import numpy as np\n\ndef rewrite(text, epsilon, rng):\n    return text if np.{}(1) else ''\n"
PARAMS = """\
audit: {seed: 0, alpha: 0.01}
datasets:
  songs: {source: songs.txt, use: train, public: true}
mechanisms: {}
cells:
  songs-mine: {dataset: songs, mechanism: mine, file: mine.py, epsilons: [1]}
attacks: {lexical: {}}
"""


class Watched:
    """The watch of a project of one mechanism, what it said, and which re-audits it began."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.begun: list[list[str]] = []
        self.refuses = False
        self.looks = Watch(self.said.append, self._start)

    def _start(self, changed: Sequence[str]) -> None:
        if self.refuses:
            raise UserError("the server does not answer")
        self.begun.append([*changed])


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "latest_revision", lambda place: pytest.fail("nothing here is on the hub"))
    monkeypatch.setattr(watching, "latest_version", lambda name: dict(_packages())[name])
    Path("params.yaml").write_text(PARAMS)
    Path("mine.py").write_text(MINE.format("abs"))
    Path("songs.txt").write_text("\n".join(f"play song {i}" for i in range(9)))
    sources.write(current(read()))
    return Watched()


def _packages() -> list[tuple[str, str]]:
    return [pair for source in current(read()) for pair in source.record.get("packages", {}).items()]


def test_nothing_begins_while_nothing_changes(watched: Watched) -> None:
    assert not watched.looks.look()
    assert (watched.begun, watched.said) == ([], [])


def _edit(record: str, kind: str, name: str, value: str) -> None:
    """As if the source had been otherwise at the last re-audit."""
    file = Path(f"sources/{record}.json")
    content = json.loads(file.read_text())
    content.setdefault(kind, {})[name] = value
    file.write_text(json.dumps(content))


CHANGES: dict[str, tuple[Any, str]] = {
    "mechanism": (lambda: Path("mine.py").write_text(MINE.format("sign")), "mine.py has changed (mechanism-mine)"),
    "data": (lambda: Path("songs.txt").write_text("other\nsongs\n"), "songs.txt has changed"),
    "package": (lambda: _edit("mechanism-mine", "packages", "numpy", "1.0"), "package numpy: 1.0 before, "),
    "pin": (lambda: _edit("mechanism-mine", "hub", "revision", "abc"), "revision: abc before, "),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_begins_one_re_audit(watched: Watched, what: str) -> None:
    change, named = CHANGES[what]
    change()
    assert watched.looks.look()
    assert not watched.looks.look(), "of one that is under way, or that did not come to its end"
    ((changed, *_),) = watched.begun
    assert changed.startswith(named)
    assert named in watched.said[0]


def test_a_change_that_is_taken_back_and_made_again_counts_again(watched: Watched) -> None:
    for function, begins in (("sign", True), ("abs", False), ("sign", True)):
        Path("mine.py").write_text(MINE.format(function))
        assert watched.looks.look() == begins
    assert len(watched.begun) == 2


@pytest.mark.parametrize("file", ["mine.py", "songs.txt", "params.yaml"])
def test_a_file_that_vanishes_is_named_once_and_waited_for(watched: Watched, file: str) -> None:
    content = Path(file).read_bytes()
    Path(file).unlink()
    for _ in range(2):
        assert not watched.looks.look()
    (said,) = watched.said
    assert said.startswith("the sources cannot be compared, so no re-audit starts: ")
    assert file in said
    Path(file).write_bytes(content)
    assert not watched.looks.look()
    assert not watched.begun


def test_half_a_file_is_waited_for(watched: Watched) -> None:
    Path("mine.py").write_text("def rewrite(text,")
    assert not watched.looks.look()
    assert "mine.py" in watched.said[0]
    Path("mine.py").write_text(MINE.format("sign"))
    assert watched.looks.look()


def test_a_server_that_refuses_is_asked_at_the_next_look(watched: Watched) -> None:
    Path("mine.py").write_text(MINE.format("sign"))
    watched.refuses = True
    assert not watched.looks.look()
    assert watched.said[-1] == (
        "the re-audit did not start, and the next check tries again: the server does not answer"
    )
    watched.refuses = False
    assert watched.looks.look()


def test_two_watches_of_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baseline, "read", lambda: None)
    with alone(), refused("EPS-P076"), alone():
        pass
    with alone():
        pass


def test_a_clock_that_is_set_back_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(watched.looks._clock - 3600, 1)
    monkeypatch.setattr(watching, "time", SimpleNamespace(time=lambda: next(clock)))
    for _ in range(2):
        watched.looks.look()
    (said,) = watched.said
    assert said.startswith("the clock was set back by 3600 s;")


def test_newer_versions_are_reported_once_and_not_adopted(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []
    monkeypatch.setattr(watching, "latest_version", lambda name: requests.append(name) or "99.1")
    before = {file: file.read_bytes() for file in Path().rglob("*.*") if file.is_file()}
    for _ in range(2):
        watched.looks.ask()
    assert requests == 2 * sorted({name for name, _ in _packages()})
    (numpy,) = (line for line in watched.said if "numpy" in line)
    assert numpy.startswith("not used: package numpy: the index has 99.1, but ")
    assert {file: file.read_bytes() for file in before} == before
    assert not watched.looks.look()


def test_what_the_index_refuses_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> str:
        raise UserError("no such package")

    monkeypatch.setattr(watching, "latest_version", refuse)
    watched.looks.ask()
    (said,) = watched.said
    assert "package numpy (UserError)" in said


def test_what_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> str:
        raise UserError("no such package")

    now = [Source("mechanism-x", {"packages": {"numpy": "1.0"}})]
    assert newer_packages(now, refuse) == ([], ["package numpy (UserError)"])
    assert newer_packages(now, lambda name: "1.0") == ([], [])
    built = [Source("mechanism-x", {"packages": {"torch": "2.13.0+cpu"}})]
    assert newer_packages(built, lambda name: "2.13.0") == ([], [])


def test_without_a_baseline_there_is_nothing_to_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = call(capsys, "watch")
    assert code == 2
    assert "has no baseline yet" in said
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_an_edited_mechanism_is_audited_again(tmp_path: Path) -> None:
    """For real: the watch is started, the mechanism leaks more from then on, and the watch says so."""
    toy = Toy(tmp_path / "toy")
    leaks = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < {} else 'play'\n"
    (toy.folder / "mine.py").write_text(leaks.format(0.3))
    cell = {"dataset": "songs", "mechanism": "mine", "file": "mine.py", "epsilons": [1]}
    toy.params |= {"cells": {"songs-mine": cell}, "attacks": {"lexical": {}}}
    toy.write_params()
    toy.run(sys.executable, "-m", "epsilometer.pipeline.repro")
    toy.run(sys.executable, "-m", "epsilometer.cli", "accept")
    watch = toy.start(sys.executable, "-m", "epsilometer.cli", "watch", "--every", "1")
    said: list[str] = []
    assert watch.stdout is not None

    def reads(text: str) -> None:
        assert any(said.append(line) or text in line for line in watch.stdout or []), said

    try:
        reads("watching ")
        (toy.folder / "mine.py").write_text(leaks.format(0.97))
        reads("mine.py has changed (mechanism-mine)")
        reads("the re-audit did not pass:")
        reads("worse: ")
        wait_for("the record of the source", lambda: (toy.folder / "sources/mechanism-mine.json").is_file())
        assert len(history.read(toy.folder / history.FILE)["date"].unique()) == 2
    finally:
        watch.terminate()
        finished(watch)
