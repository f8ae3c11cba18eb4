"""A commit that changes a frozen result is detected, and the difference is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.goldens import __main__ as goldens
from tests.goldens import sections
from tests.goldens.sections import SECTIONS, first_difference
from tests.goldens.values import compact, of_parquet
from tests.support.places import ROOT


@pytest.mark.slow
def test_results_are_the_frozen_ones(tmp_path: Path) -> None:
    """From another folder than the repository's, in another order, and with strings that hash otherwise."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.goldens", *reversed(SECTIONS)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_section_is_frozen() -> None:
    assert sorted(file.stem for file in sections.FROZEN.iterdir()) == sorted(SECTIONS)


def test_every_study_has_a_section() -> None:
    studies = {folder.parent.name for folder in (ROOT / "epsilometer/studies").glob("*/stages.yaml")}
    assert {f"studies_{study}" for study in studies} <= {*SECTIONS}


def test_a_section_that_fails_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(goldens, "SECTIONS", ("missing_module", "locks_leaderboard"))
    monkeypatch.setattr(sections, "FROZEN", tmp_path)
    assert goldens.main(["freeze"]) == 1
    output = capsys.readouterr().out
    assert "ModuleNotFoundError" in output
    assert "Failed: missing_module\n" in output
    assert [file.name for file in tmp_path.iterdir()] == ["locks_leaderboard.json"]
    assert goldens.main(["locks_leaderboard"]) == 0
    assert "locks_leaderboard agrees" in capsys.readouterr().out


def test_a_file_in_conflict_is_a_difference_and_can_be_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "FROZEN", tmp_path)
    (tmp_path / "locks_leaderboard.json").write_text("<<<<<<< HEAD\n{}\n")
    assert goldens.main(["locks_leaderboard"]) == 1
    assert goldens.main(["freeze", "locks_leaderboard"]) == 0
    assert goldens.main(["locks_leaderboard"]) == 0


def test_an_unknown_section_is_refused_before_any_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert goldens.main(["freeze", "locks_leaderboard", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_draws_from_the_system_are_those_of_the_last_run() -> None:
    """In a process of its own, where they are seeded from then on."""
    code = (
        "from tests.goldens.system_words import restart; from epsilometer.core.exact_samplers import ExactDraws;"
        "first = ExactDraws().words(3); second = ExactDraws().words(3); restart();"
        "print(first.tolist() == ExactDraws().words(3).tolist(), first.tolist() == second.tolist(), first.tolist())"
    )
    runs = {subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) for _ in range(2)}
    assert len(runs) == 1
    assert runs.pop().startswith("True False")


def test_the_first_difference_is_named() -> None:
    frozen = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert first_difference(frozen, {"a": {"b": 1, "c": [1, 2]}, "d": 3}) is None
    assert "a > c" in str(first_difference(frozen, {"a": {"b": 1, "c": [1, 3]}, "d": 4}))
    assert "absent" in str(first_difference(frozen, {"a": {"b": 1, "c": [1, 2]}}))
    assert "e" in str(first_difference(frozen, frozen | {"e": 1}))


def test_the_last_bit_of_a_number_in_a_long_list_counts() -> None:
    numbers = [0.1 * i for i in range(200)]
    assert compact(numbers) == compact([*numbers])
    assert compact(numbers) != compact([*numbers[:-1], numbers[-1] + 1e-14])
    assert compact([{"x": 0.0}]) != compact([{"x": -0.0}])


def test_times_do_not_count(tmp_path: Path) -> None:
    table = pl.DataFrame({"loss": [0.5], "seconds": [1.0], "words_a_second": [9.0]})
    table.write_parquet(tmp_path / "table.parquet")
    assert [*of_parquet(tmp_path / "table.parquet")] == ["loss"]
