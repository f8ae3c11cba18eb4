"""The command `anonymize`: auxiliaries trained or read, each text with its rewrite, and why."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.support.commands import call

# Who writes "lovely" is F, who writes "solid" M; a "broken" thing is bad.
PHRASES = [(mark, gender, end, rating) for mark, gender in (("lovely", "F"), ("solid", "M"))
           for end, rating in (("and it works", "good"), ("but broken", "bad"))]  # fmt: skip
THINGS = ("shoe", "lamp", "book", "chair", "table", "kettle")
SWAP = """
from epsilometer.core.mechanism import Rewrites


class Swap:
    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        return Rewrites([text.replace("lovely", "solid") for text in texts])

    def guarantee(self, epsilon):
        return None
"""
VECTORS = ("lovely", "solid", "and", "it", "works", "but", "broken", "a", *THINGS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(f"a {mark} {thing} {end}", g, r) for thing in THINGS for mark, g, end, r in PHRASES]
    pl.DataFrame(rows, schema=["text", "gender", "rating"], orient="row").write_csv("train.csv")
    Path("texts.txt").write_text("a lovely shoe but broken\na solid lamp and it works\n")
    Path("swap.py").write_text(SWAP)
    Path("vectors.txt").write_text("".join(f"{word} {i} {i % 3}\n" for i, word in enumerate(VECTORS)))


ARGUMENTS = ("anonymize", "texts.txt", "--attribute", "gender", "--labelled", "train.csv", "--vectors", "vectors.txt")


def test_what_changed_is_marked_and_what_gave_it_away_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, *ARGUMENTS, "--keep", "rating", "--mechanism", "swap.py", "--explain")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "rewritten: a [-lovely-] {+solid+} shoe but broken"
    assert lines[1].startswith("    gender was given away (linear) by lovely ")
    sure = dict(part.rsplit(" ", 3)[::3] for part in lines[2].partition(": ")[2].split(", "))
    assert float(sure["F"]) < 0.5 < float(sure["M"])  # after the change
    assert "rating" in lines[3]
    assert lines[4] == "rewritten: a solid lamp and it works"


def test_a_table_of_rewrites(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--out", "out.csv")
    assert code == 0
    assert pl.read_csv("out.csv")["rewrite"].to_list() == ["a solid shoe but broken", "a solid lamp and it works"]
    code, out, _ = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--json")
    assert [row["text"] for row in json.loads(out)] == ["a lovely shoe but broken", "a solid lamp and it works"]


def test_auxiliaries_are_kept_and_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*ARGUMENTS, "--mechanism", "swap.py", "--auxiliaries", "aux")
    assert call(capsys, *arguments)[0] == 0
    written = Path("aux/about.json").stat().st_mtime_ns
    assert call(capsys, *arguments)[0] == 0
    assert Path("aux/about.json").stat().st_mtime_ns == written
    code, _, err = call(capsys, *arguments, "--keep", "rating")
    assert code == 2
    assert "rating" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--keep", "gender"), "named twice"),
        (("--keep", "taste"), "taste"),
        (("--kind", "oracle"), "oracle"),
        (("--mechanism", "tem"), "--epsilon must be given"),
    ],
)
def test_one_message_for_what_cannot_be_done(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    code, out, err = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", *more)
    assert (code, out) == (2, "")
    assert said in err
