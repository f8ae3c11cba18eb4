"""The measurements of a search are stored, and survive any interruption."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer.auditing.calibration.journal import Journal
from epsilometer.auditing.calibration.sampled import Batch, Goal
from epsilometer.auditing.calibration.search import search as fresh_search
from epsilometer.auditing.text_audit import Pool
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import named_files
from epsilometer.core.component import IDENTIFICATION, find
from epsilometer.core.mechanism import FunctionMechanism
from tests.support.waiting import pause

TEXTS = ["the meeting is on", "the meeting is off"]


class Respond:
    """Keeps a text of two with probability 3/4 below epsilon 1 and 0.99 above it; counts, and stops when told."""

    def __init__(self, enough: int = 10**9) -> None:
        self.rewritten, self.enough = 0, enough

    def __call__(self, text: str, epsilon: float, rng: np.random.Generator) -> str:
        if self.rewritten >= self.enough:
            raise KeyboardInterrupt
        self.rewritten += 1
        return text if rng.random() < (0.75 if epsilon < 1 else 0.99) else TEXTS[1 - TEXTS.index(text)]


def search(respond: Respond, target: float, journal: Journal | None, attacks: Sequence[str] = ("lexical",)) -> object:
    goal, design = Goal(target, 0.2, 6.0, width=1.5), Design(temperature=0)
    chosen = {name: find(IDENTIFICATION, name, "guess")() for name in attacks}
    return fresh_search(Pool(TEXTS), FunctionMechanism(respond), chosen, goal, design=design, journal=journal)


def test_a_stopped_search_goes_on_and_ends_alike(tmp_path: Path) -> None:
    path, whole, stopped, rest = tmp_path / "kept" / "a.jsonl", Respond(), Respond(enough=300), Respond()
    expected = search(whole, 2.0, None)
    with pytest.raises(KeyboardInterrupt):
        search(stopped, 2.0, Journal(path))
    assert search(rest, 2.0, Journal(path)) == expected
    assert rest.rewritten == whole.rewritten - 200  # a batch has 200 rewrites
    again = Respond()
    assert search(again, 2.0, Journal(path)) == expected
    assert again.rewritten == 0


def test_a_search_that_is_killed_goes_on_and_ends_alike(tmp_path: Path) -> None:
    """kill -9 at three moments with a fixed seed."""
    path, expected, draws = tmp_path / "a.jsonl", search(Respond(), 2.0, None), random.Random(1)
    for _ in range(3):
        if not (child := os.fork()):
            search(Respond(), 2.0, Journal(path))
            os._exit(0)
        pause(draws.uniform(0.05, 0.5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert search(Respond(), 2.0, Journal(path)) == expected


def test_files_that_settings_name_are_part_of_a_journals_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "words.txt", "judge.bin"):
        Path(name).touch()
    settings = [
        {"mine.py": {}, "length": {}},
        {"sensitive": "words.txt", "keep": 0.5, "note": ""},
        {"model": "judge.bin"},
    ]
    assert named_files(settings) == [Path("mine.py"), Path("words.txt"), Path("judge.bin")]


def test_another_target_uses_what_was_measured(tmp_path: Path) -> None:
    path, alone, after = tmp_path / "a.jsonl", Respond(), Respond()
    search(Respond(), 2.0, Journal(path))
    assert search(after, 2.5, Journal(path)) == search(alone, 2.5, None)
    assert after.rewritten < alone.rewritten


def test_another_attack_is_measured_on_the_same_rewrites(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    search(Respond(), 2.0, Journal(path))
    assert search(Respond(), 2.0, Journal(path), ["lexical", "length"]) == search(
        Respond(), 2.0, None, ["lexical", "length"]
    )


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    journal = Journal(path)
    journal["lexical", 1.5, 0, 200], journal["lexical", 1.5, 200, 200] = Batch(101), Batch(150, np.array([0.1, 1 / 3]))
    path.write_text(path.read_text()[:-3])
    opened = Journal(path)
    assert dict(opened) == {("lexical", 1.5, 0, 200): Batch(101)}
    opened["lexical", 1.5, 200, 200] = journal["lexical", 1.5, 200, 200]
    again = Journal(path)
    assert again["lexical", 1.5, 200, 200].posteriors.tolist() == [0.1, 1 / 3]
    assert [batch.successes for batch in again.values()] == [101, 150]


def test_a_flipped_bit_loses_lines_but_changes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """400 flips with a fixed seed; lost lines are counted, and their file is named."""
    journal, draws = Journal(tmp_path / "whole.jsonl"), random.Random(0)
    for i in range(10):
        journal["lexical", 1.5, 200 * i, 200] = Batch(101 + i, np.array([0.1 * i, 1 / 3]) if i % 2 else None)
    whole, expected = journal.path.read_bytes(), as_read(journal)
    for i in range(400):
        path = tmp_path / f"{i}.jsonl"
        place = draws.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draws.randrange(8)]) + whole[place + 1 :])
        left = as_read(Journal(path))
        assert left.items() <= expected.items()
        joined = whole[place] == ord("\n") and place > 0  # two lines become one
        assert len(left) == (8 if joined else 9)
        assert f"1 of {9 if joined else 10} lines in {path}" in capsys.readouterr().err


def as_read(journal: Journal) -> dict[object, object]:
    lists = {key: None if batch.posteriors is None else batch.posteriors.tolist() for key, batch in journal.items()}
    return {key: (batch.successes, lists[key]) for key, batch in journal.items()}
