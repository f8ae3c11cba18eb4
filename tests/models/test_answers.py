"""Stored answers after damage: the same answer or none."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from epsilometer.models.answers import Completion, Store
from tests.support.refusals import refused

ANSWERS = {bytes([i]) * 32: Completion(f"answer {i}, {'é' * i}", i, 2 * i, f"model-{i // 40}") for i in range(60)}
NEWEST = "model-1"


def fill(path: Path) -> bytes:
    with closing(Store(path)) as store:
        for key, answer in ANSWERS.items():
            store.put(key, "there", answer)
    return path.read_bytes()


def stored(path: Path) -> dict[bytes, Completion]:
    with closing(Store(path)) as store:
        assert store.revision("there") in (NEWEST, "")  # an older revision would bring back older answers
        return {
            key: store.get(key, answer.revision) for key, answer in ANSWERS.items() if store.has(key, answer.revision)
        }


def test_a_flipped_bit_loses_answers_but_changes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """300 flips with a fixed seed; an answer that is gone is always named with its file."""
    whole, draws, lost = fill(tmp_path / "whole"), random.Random(0), 0
    for i in range(300):
        path = tmp_path / f"{i}.sqlite"
        place = draws.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draws.randrange(8)]) + whole[place + 1 :])
        left = stored(path)
        assert all(left[key] == ANSWERS[key] and left[key].revision == ANSWERS[key].revision for key in left)
        said = capsys.readouterr().err
        assert (str(path) in said) or left == ANSWERS
        lost += left != ANSWERS
        assert stored(path) == left
        assert not capsys.readouterr().err  # the damaged store was replaced
    assert lost > 50


def test_damaged_rows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = fill(tmp_path / "s")
    (tmp_path / "s").write_bytes(whole.replace(b"answer 7,", b"answer 8,").replace(b"answer 9,", b"\xffnswer 9,"))
    assert ANSWERS.keys() - stored(tmp_path / "s").keys() == {bytes([7]) * 32, bytes([9]) * 32}
    assert f"note: 2 damaged rows of {tmp_path / 's'} were deleted" in capsys.readouterr().err


def test_what_is_intact_in_a_damaged_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of zeros: other pages' answers stay, and the file is put aside for its owner alone."""
    path = tmp_path / "s"
    whole = fill(path)
    page = whole.index(b"answer 30,") // 4096 * 4096
    path.write_bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
    left = stored(path)
    assert 0 < len(left) < len(ANSWERS)
    assert f"{len(left)} answers were recovered" in capsys.readouterr().err
    assert (tmp_path / "s.damaged").stat().st_size == len(whole)
    assert path.stat().st_mode & 0o777 == 0o600


def test_rows_without_hashes_get_them_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "CREATE TABLE completions (question BLOB, revision TEXT, source TEXT, text TEXT, prompt_tokens INTEGER, "
            "completion_tokens INTEGER, PRIMARY KEY (question, revision))"
        )
        for key, answer in ANSWERS.items():
            row = (key, answer.revision, "there", answer.text, answer.prompt_tokens, answer.completion_tokens)
            old.execute("INSERT INTO completions VALUES (?, ?, ?, ?, ?, ?)", row)
    assert stored(path) == ANSWERS
    assert not capsys.readouterr().err
    path.write_bytes(path.read_bytes().replace(b"answer 7,", b"answer 8,"))
    assert ANSWERS.keys() - stored(path).keys() == {bytes([7]) * 32}


def test_damage_during_a_run_is_one_clear_error(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    with closing(Store(tmp_path / "s")) as store:
        with closing(sqlite3.connect(tmp_path / "s")) as other, other:
            other.execute("UPDATE completions SET text = 'another' WHERE prompt_tokens = 7")
        with refused("EPS-N001"):
            store.get(bytes([7]) * 32, "model-0")
