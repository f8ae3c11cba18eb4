"""The commands `canaries` and `one-run`: from a training set to a bound on what its training reveals."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.support.commands import call


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"text": [f"text {i}" for i in range(500)], "label": ["good", "bad"] * 250}).write_csv("texts.csv")


def scored(certain: bool) -> None:
    """Scores as by a training that gives every coin away, or none."""
    key = pl.read_csv("texts.key.csv")
    scores = key["included"] * 2.0 if certain else pl.Series(np.random.default_rng(1).standard_normal(len(key)))
    key.select("canary", score=scores).write_csv("scores.csv")


def test_canaries_are_planted_and_their_scores_judged(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "training", "canaries", "texts.csv", "--label", "label", "--count", 400)
    assert code == 0
    key = pl.read_csv("texts.key.csv")
    assert len(pl.read_csv("texts.planted.csv")) == 100 + key["included"].sum()
    assert "of 400 canaries" in err
    scored(certain=True)
    arguments = ("training", "one-run", "scores.csv", "--key", "texts.key.csv", "--delta", "1e-6", "--json")
    code, out, _ = call(capsys, *arguments, "--claim", "1,1e-6", "--claim", "3,0")
    rows = {row["method"]: row for row in json.loads(out)}
    assert code == 1
    assert 3 < rows["f-dp"]["lower"] <= rows["f-dp"]["ceiling"]
    assert {row["verdict"] for row in rows.values()} == {"violated"}
    scored(certain=False)
    for claim, ended, verdict in (([], 0, "no claim"), ([1], 0, "not refuted"), ([100], 3, "not testable")):
        code, out, _ = call(capsys, *arguments, *(f"--claim={epsilon},1e-6" for epsilon in claim))
        assert code == ended
        assert all(row["lower"] < 1 and row["verdict"] == verdict for row in json.loads(out))


def test_the_files_are_private_and_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("training", "canaries", "texts.csv", "--label", "label", "--count", 10)
    assert call(capsys, *arguments)[0] == 0
    for name in ("texts.key.csv", "texts.planted.csv"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    before = Path("texts.key.csv").read_bytes()
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert "texts.planted.csv exists; name another file (--out)" in err
    code, _, err = call(capsys, *arguments, "--out", "other.csv")
    assert "texts.key.csv exists, and an overwritten key cannot be recovered; name another file (--key)" in err
    assert Path("texts.key.csv").read_bytes() == before
    assert not Path("other.csv").exists()


def test_a_seed_repeats_the_coins(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        call(capsys, "training", "canaries", "texts.csv", "--label", "label", "--count", 50, "--seed", 4,
             "--out", f"{name}.jsonl", "--key", f"{name}.key.csv")  # fmt: skip
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert Path("a.key.csv").read_bytes() == Path("b.key.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "lable"), "unknown column 'lable'; to see the file's names"),
        (("--label", "label", "--kind", "gradient"), "ruin a model"),
        (("--label", "label", "--count", "1"), "count must be >= 2"),
        (("--label", "label", "--count", "9", "--key", "no/key.csv"), "folder no does not exist"),
        (("--label", "label", "--key", "a.csv", "--out", "./a.csv"), "--out and --key must be two files"),
        (("--label", "label", "--out", "a.xyz"), "--out must end in one of .parquet"),
        (("--label", "text"), "text and label must be different columns, got 'text' for both"),
    ],
)
def test_bad_canaries(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in call(capsys, "training", "canaries", "texts.csv", *arguments)[2]
    assert not Path("texts.planted.csv").exists()


@pytest.mark.parametrize(
    ("scores", "more", "message"),
    [
        ("canary,score\n0,1\n", (), "lacks a numeric score for 9 of the 10 canaries"),
        ("canary,score\n0,1\n0,2\n", (), "several scores for a canary"),
        ("canary,loss\n0,1\n", (), "unknown column 'score'"),
        ("canary,score\n" + "".join(f"{i},1\n" for i in range(12)), (), "2 canaries that are not in texts.key.csv"),
        ("canary,score\n" + "".join(f"{i},1\n" for i in range(10)), ("--claim", "8"), "--claim must be"),
    ],
)
def test_bad_scores(scores: str, more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "training", "canaries", "texts.csv", "--label", "label", "--count", 10)
    Path("scores.csv").write_text(scores)
    arguments = ("training", "one-run", "scores.csv", "--key", "texts.key.csv", "--delta", "1e-5", *more)
    assert message in call(capsys, *arguments)[2]


def test_a_score_that_is_no_number_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a training that diverged gives it."""
    (tmp_path / "key.csv").write_text("canary,included\n0,1\n1,0\n")
    (tmp_path / "scores.csv").write_text("canary,score\n0,NaN\n1,0.5\n")
    code, _, err = call(
        capsys, "training", "one-run", tmp_path / "scores.csv", "--key", tmp_path / "key.csv", "--delta", 1e-5
    )
    assert code == 2
    assert "lacks a numeric score for 1 of the 2 canaries" in err
