"""The command `anonymize`: auxiliaries trained or read, and for each text its rewrite and the reasons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.core.outcomes import MEANING
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.studies.anonymity import anonymizing, meaning
from epsilometer.studies.anonymity.anonymizing import over
from tests.support.commands import call

# Authors who write "lovely" are F, those who write "solid" are M. "broken" marks a bad rating.
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
    assert lines[1].startswith("    revealed gender to linear: lovely (+")
    assert lines[2].startswith("    gender according to linear: F before, M after (F ")
    sure = dict(part.split(" ", 1) for part in lines[2].partition("(")[2].rstrip(")").split(", "))
    assert float(sure["F"].split(" -> ")[1]) < 0.5 < float(sure["M"].split(" -> ")[1])
    assert "rating" in lines[3]
    assert lines[4] == "rewritten: a solid lamp and it works"


def test_a_table_of_rewrites(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--out", "out.csv")
    assert code == 0
    assert Path("out.csv").stat().st_mode & 0o777 == 0o600, "it holds the texts"
    assert pl.read_csv("out.csv")["rewrite"].to_list() == ["a solid shoe but broken", "a solid lamp and it works"]
    code, out, _ = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--json")
    assert [row["text"] for row in json.loads(out)] == ["a lovely shoe but broken", "a solid lamp and it works"]


def test_auxiliaries_are_kept_and_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*ARGUMENTS, "--mechanism", "swap.py", "--explain", "--auxiliaries", "aux")
    assert call(capsys, *arguments)[0] == 0
    written = Path("aux/about.json").stat().st_mtime_ns
    again = ("anonymize", "texts.txt", *ARGUMENTS[2:6], "--mechanism", "swap.py", "--explain", "--auxiliaries", "aux")
    assert call(capsys, *again)[0] == 0
    assert Path("aux/about.json").stat().st_mtime_ns == written
    code, _, err = call(capsys, *again, "--keep", "rating")
    assert code == 2
    assert "rating" in err
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert "--vectors is for training auxiliaries, and aux already contains auxiliaries" in err
    file, *rest = ("texts.txt", "--attribute", "gender", "--mechanism", "swap.py", "--explain", "--auxiliaries")
    assert call(capsys, "anonymize", file, *rest, "aux")[0] == 0  # this needs no labelled texts
    code, _, err = call(capsys, "anonymize", file, *rest, "empty")
    assert code == 2
    assert "--labelled is missing" in err


def test_explanations_are_columns_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*ARGUMENTS, "--mechanism", "swap.py", "--explain")
    assert call(capsys, *arguments, "--out", "out.csv")[0] == 0
    rows = json.loads(call(capsys, *arguments, "--json")[1])
    table = pl.read_csv("out.csv")
    for name in ("gave_away", "probabilities"):
        assert [json.loads(cell) for cell in table[name]] == [row[name] for row in rows]
    assert "lovely" in json.loads(table["gave_away"][0])["gender"]["linear"]


def test_a_table_of_unknown_form_is_refused_before_any_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymizing, "make", lambda *_: pytest.fail("trained"))
    code, _, err = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--explain", "--out", "out.xlsx")
    assert code == 2
    assert "--out must end in one of .parquet, .csv, .tsv, .jsonl, .ndjson, .json, got out.xlsx" in err


def test_no_auxiliaries_are_trained_for_a_mechanism_that_reads_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymizing, "make", lambda *_: pytest.fail("trained"))
    for arguments in (("anonymize", "texts.txt", "--attribute", "gender"), ARGUMENTS):
        code, out, err = call(capsys, *arguments, "--mechanism", "swap.py")
        assert code == 0
        assert out.startswith("rewritten: a [-lovely-] {+solid+} shoe")
        assert "swap.py asks no auxiliaries: the labels and --labelled have no effect" in err


def test_auxiliaries_learn_from_every_column_of_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """The first column alone says nothing of gender."""
    rows = [(f"a {thing}", f"{mark} {end}", gender) for thing in THINGS for mark, gender, end, _ in PHRASES]
    table = pl.DataFrame(rows, schema=["title", "body", "gender"], orient="row")
    table.write_csv("train.csv")
    table.select("title", "body").head(1).write_csv("texts.csv")
    options = ("--mechanism", "swap.py", "--explain", "--json", "--text", "title", "--text", "body")
    code, out, _ = call(capsys, "anonymize", "texts.csv", *ARGUMENTS[2:], *options)
    assert code == 0
    (row,) = json.loads(out)
    assert row["gave_away"]["gender"]["linear"]["lovely"] > 0
    assert row["probabilities"]["gender"]["linear"]["F"]["before"] > 0.5


def test_a_mechanism_that_does_not_look_at_what_is_to_be_kept_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{word} {np.cos(i / 2):.3f} {np.sin(i / 2):.3f}\n" for i, word in enumerate(VECTORS)]  # no vector is zero
    Path("vectors.txt").write_text("".join(lines))
    common = (*ARGUMENTS, "--mechanism", "textbugger", "--set", "similarity=free", "--seed", "0", "--keep", "rating")
    code, out, err = call(capsys, *common, "--explain")
    assert code == 0
    assert "textbugger ignores --keep, so its rewrites may lose rating" in err
    assert "found: the classifier that was asked is wrong about the attribute; labels to keep were not" in err
    assert "labels to keep are kept" not in err
    assert "rating according to linear" in out, "it is explained all the same"


@pytest.mark.parametrize(
    ("name", "settings", "keeps", "meaning_of_found"),
    [
        ("idt", {}, True, MEANING["found"]),
        ("llm_rewrite", {"model": "m"}, True, "the model changed the text; no classifier was asked"),
        ("llm_adversarial", {"model": "m"}, False, "labels to keep were not considered"),
        ("textfooler", {}, False, "the classifier that was asked is wrong about the attribute"),
        ("bae", {}, False, "the classifier that was asked is wrong about the attribute"),
        ("presidio", {}, False, "no auxiliary was asked about the attribute"),
        ("swap.py", {}, False, "no auxiliary was asked about the attribute"),
    ],
)
def test_found_means_no_more_than_what_a_mechanism_asks(
    name: str, settings: dict[str, str], keeps: bool, meaning_of_found: str, tmp_path: Path
) -> None:
    built = over(tmp_path, name, settings)
    meanings = meaning.meanings(built, tmp_path)
    assert meaning_of_found in meanings["found"]
    assert {**meanings, "found": ""} == {**MEANING, "found": ""}
    assert meaning.keeps_labels(built, tmp_path) is keeps


SAYING = """
import numpy as np
from epsilometer.core.mechanism import Rewrites, Unread
from epsilometer.core.outcomes import Outcomes


class Saying:
    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        none = np.zeros(len(texts), np.int64)
        return Rewrites(list(texts), outcomes=Outcomes(["missed"] * len(texts), none, none, none, none))

    def unread(self, texts):
        return Unread(cut=1, texts=2, unknown=6, words=9)

    def guarantee(self, epsilon):
        return None
"""


def test_each_status_is_explained_and_what_is_not_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("saying.py").write_text(SAYING)
    code, out, err = call(capsys, *ARGUMENTS, "--mechanism", "saying.py")
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == ["missed", "missed"]
    assert f"2 of 2 missed: {MEANING['missed']}" in err
    assert "66.7% of the words of the texts have no vector" in err
    assert "1 of 2 texts are longer than the classifiers read" in err


def test_a_mechanism_reads_what_it_reads_by_default(tmp_path: Path) -> None:
    """The auxiliaries' folder holds no network and no vocabulary of TEM's."""
    assert "resource" not in vars(over(tmp_path, "swap.py", {}))
    assert Path(vars(over(tmp_path, "idt", {}))["resource"]) == tmp_path
    assert Path(vars(over(tmp_path, "custext", {}))["resource"]) == vectors()
    assert vars(over(tmp_path, "custext", {"resource": "mine.npz"}))["resource"] == Path("mine.npz")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--keep", "gender"), "EPS-M017"),
        (("--keep", "taste"), "taste"),
        (("--kind", "oracle"), "oracle"),
        (("--mechanism", "tem"), "--epsilon is not set"),
    ],
)
def test_one_message_for_what_cannot_be_done(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    code, out, err = call(capsys, *ARGUMENTS, "--mechanism", "swap.py", "--explain", *more)
    assert (code, out) == (2, "")
    assert said in err


def test_an_author_may_say_what_is_true_of_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """`a lovely shoe` of a man deceives already; that of a woman is rewritten."""
    Path("texts.txt").write_text("a lovely shoe and it works\n")
    lines = [f"{word} {np.cos(i / 2):.3f} {np.sin(i / 2):.3f}\n" for i, word in enumerate(VECTORS)]  # no vector is zero
    Path("vectors.txt").write_text("".join(lines))
    common = (*ARGUMENTS, "--mechanism", "textbugger", "--set", "similarity=free", "--json", "--seed", "0")
    code, out, _ = call(capsys, *common, "--attribute-value", "M")
    assert code == 0
    assert json.loads(out)[0]["rewrite"] == "a lovely shoe and it works"
    code, out, _ = call(capsys, *common, "--attribute-value", "F")
    assert code == 0
    assert json.loads(out)[0]["status"] == "found"


def test_a_column_says_what_is_true_of_each_text(capsys: pytest.CaptureFixture[str]) -> None:
    """As above, of two authors in one file."""
    authors = pl.DataFrame({"text": ["a lovely shoe and it works", "a lovely lamp and it works"], "who": ["M", "F"]})
    authors.write_csv("authors.csv")
    lines = [f"{word} {np.cos(i / 2):.3f} {np.sin(i / 2):.3f}\n" for i, word in enumerate(VECTORS)]  # no vector is zero
    Path("vectors.txt").write_text("".join(lines))
    common = ("anonymize", "authors.csv", *ARGUMENTS[2:], "--mechanism", "textbugger", "--set", "similarity=free")
    code, out, _ = call(capsys, *common, "--attribute-column", "who", "--json", "--seed", "0")
    assert code == 0
    of_a_man, of_a_woman = json.loads(out)
    assert of_a_man["rewrite"] == "a lovely shoe and it works"
    assert of_a_woman["status"] == "found"


@pytest.mark.parametrize(
    ("classes", "options", "message"),
    [
        (["F", None], (), "row 2 has no gender"),
        (["F", "X"], (), "'X' is not a class of gender"),
        (["F", "M"], ("--attribute-column", "who"), "once for each --attribute, got 2 for 1"),
        (["F", "M"], ("--attribute-value", "F"), "give only one of them"),
        (["F", "M"], ("--mechanism", "swap.py"), "asks no classifier"),
    ],
)
def test_a_column_that_leaves_a_text_without_a_class_is_refused(
    classes: list[str | None], options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"text": ["a lovely shoe", "a solid lamp"], "who": classes}).write_csv("authors.csv")
    mechanism = () if "--mechanism" in options else ("--mechanism", "textfooler")
    column = ("--attribute-column", "who")
    code, _, err = call(capsys, "anonymize", "authors.csv", *ARGUMENTS[2:], *column, *mechanism, *options)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attribute-value", "X"), "'X' is not a class of gender"),
        (("--attribute-value", "F", "--attribute-value", "M"), "once for each --attribute"),
        (("--attribute-value", "F", "--mechanism", "swap.py"), "asks no classifier"),
    ],
)
def test_a_value_that_nobody_knows_is_refused(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(
        capsys, *ARGUMENTS, *(() if "--mechanism" in options else ("--mechanism", "textfooler")), *options
    )
    assert code == 2
    assert message in err
