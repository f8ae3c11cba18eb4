"""`epsilometer ask`: the table of each question, settings without the question's name, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from epsilometer.core.component import names
from tests.support.commands import call

QUICK = ("--temperature", 0, "--attacks", "lexical,length")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Twenty texts of ten authors, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"the {a} was {b}", "who": a} for a in "abcdefghij" for b in ("cold", "kind")]
    pl.DataFrame(rows).write_csv("texts.csv")
    return Path("texts.csv")


@pytest.mark.parametrize(
    ("question", "old"),
    [
        (("which_text", "--trials", 40, *QUICK), ("--trials", 40, *QUICK)),
        (("which_unit", "--trials", 20, *QUICK), ("--units", "--trials", 20, *QUICK)),
        (("worst_pair", "--trials", 40, *QUICK), ("--worst", "--trials", 40, *QUICK)),
        (("identifiers", "--with", "kinds=[date]", "--trials", 2), ("--identifiers", "date", "--trials", 2)),
        (
            ("linking", "--with", "author=who", "--with", "linking.among=2", "--with", "attacks=[bm25]"),
            ("--author=who", "--among", 2, "--linkers", "bm25"),
        ),
    ],
    ids=lambda words: str(words[0]),
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=str)
def test_a_question_has_the_table_of_the_audit_that_a_flag_had_chosen(
    capsys: pytest.CaptureFixture[str],
    texts: Path,
    question: tuple[object, ...],
    old: tuple[object, ...],
    form: tuple[str, ...],
) -> None:
    name, *options = question
    code, out, _ = call(capsys, "ask", name, texts, "--mechanism", "identity", *options, *form)
    again, before, _ = call(capsys, "audit", texts, "--mechanism", "identity", *old, *form)
    assert (code, again) == (0, 0)
    assert out == before != ""


def test_every_other_question_has_one_table_in_common(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    arguments = (texts, "--mechanism", "identity", "--trials", 200)
    code, out, _ = call(capsys, "ask", "tail", *arguments, *QUICK, "--json")
    rows = {row["figure"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["lexical, tail"]["point"] > 0.9
    assert rows["lexical, tail"]["high"] == 1 >= rows["length, tail"]["high"] > 0
    code, out, _ = call(capsys, "ask", "tail", *arguments, *QUICK, "--columns", "trials,covers")
    assert (code, out.splitlines()[0].split()) == (0, ["trials", "covers"])
    # Only the question itself counts identifiers that survive in part, not the separate table.
    partly = ("--with", "partly=true", "--with", "kinds=[date]", "--temperature", 0)
    code, out, _ = call(capsys, "ask", "identifiers", *arguments[:3], *partly, "--trials", 2, "--json")
    assert {row["point"] for row in json.loads(out)} == {1}


@pytest.mark.usefixtures("texts")
def test_a_question_of_ones_own_is_asked_by_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("""
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Scale
from epsilometer.auditing.question import Observed
from epsilometer.core.component import component

@component
class Mine:
    right: int = 0
    needs = gives = frozenset()
    usual = 10
    columns = ()

    def observe(self, of, count):
        hits = Hits(self.right, count)
        return [Observed(Evidence("mine", By.COUNT, Scale.loss(2), hits, covers=Covers.EVERYONE))]
""")
    arguments = ("ask", "mine.py", "texts.csv", "--mechanism", "identity", "--temperature", 0)
    code, out, err = call(capsys, *arguments, "--with", "right=7", "--json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    assert (row["figure"], row["trials"]) == ("mine", 10)
    assert row["low"] <= row["point"] == pytest.approx(0.8473, abs=1e-4)  # ln(7 / 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nothing texts.csv --mechanism identity", "unknown question 'nothing'"),
        ("linking texts.csv --mechanism identity --with tail.x=1", "tail.x is not a setting of the questions asked"),
        ("linking texts.csv --mechanism identity --with auther=who", "did you mean 'author'?"),
        ("linking texts.csv --mechanism identity --with author=nobody", "nobody"),
        ("linking texts.csv --mechanism identity --with author=who --attacks length", "--attacks"),
        ("linking --rewrites made.csv --with author=who", "give a FILE of texts, with the column who"),
        ("which_unit --rewrites made.csv", "give a mechanism instead of recorded rewrites"),
        ("identifiers --rewrites made.csv", "give a mechanism instead of recorded rewrites"),
        ("tail --rewrites made.csv", "give a mechanism instead of recorded rewrites"),
        ("tail texts.csv --mechanism tem", "epsilon"),
        ("tail texts.csv --mechanism identity --columns figur", "did you mean 'figure'?"),
        ("tail texts.csv --mechanism identity --prior .5,.5", "No such option: --prior"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_a_mistake_is_named(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    pl.DataFrame({"original": ["a", "b"], "rewrite": ["a", "b"]}).write_csv("made.csv")
    code, out, err = call(capsys, "ask", *words.split())
    assert (code, out) == (2, "")
    assert said in err


def test_the_list_has_every_question_and_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list", "questions", "--json")
    rows = {row["question"]: row for row in json.loads(out)}
    assert (code, sorted(rows)) == (0, names("questions"))
    assert all(row["asks"] and row["settings"] for row in rows.values())
    code, out, _ = call(capsys, "list", "--json")
    assert [row["mechanism"] for row in json.loads(out)] == names("mechanisms")
    assert call(capsys, "mechanisms")[:2] == call(capsys, "list")[:2]
    assert call(capsys, "list", "mechanism")[0] == 2
