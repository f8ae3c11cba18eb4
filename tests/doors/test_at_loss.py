"""Mechanisms at one loss: their epsilons are those of `calibrate`, and all are compared on the same trials."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import Search
from epsilometer.core.rounding import cell
from epsilometer.doors.at_loss import AtLoss, article, calibrated_to, compared_at
from epsilometer.doors.compare import compare
from epsilometer.questions.similarity import Similarity
from epsilometer.questions.which_text import WhichText
from epsilometer.report.article import Article, tex
from tests.support.commands import call
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]
SEARCH = Search(match="words", high=4.0, low=0.1, width=3.0, attack="lexical")
DESIGN = Design(temperature=0)
MINE = """
import math

def rewrite(text, epsilon, rng):
    return text if rng.random() < math.tanh(epsilon / 2) else "nothing"
"""


def coin(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """The text with probability tanh(epsilon / 2), else nothing: its average loss is epsilon."""
    return text if rng.random() < np.tanh(epsilon / 2) else "nothing"


def faint(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """The same at half the epsilon."""
    return coin(text, epsilon / 2, rng)


def least(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Never the text, so that no epsilon has a loss."""
    return "nothing"


def blank(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Nothing."""
    return ""


@pytest.fixture(scope="module")
def at() -> AtLoss:
    return calibrated_to(TEXTS, [coin, faint, least], 1.0, replace(SEARCH, budget=4000), design=DESIGN)


def test_epsilons_are_those_of_calibrate(at: AtLoss) -> None:
    assert [row["status"] for row in at.calibrated] == ["found", "found", "outside"]
    for row, mechanism in zip(at.calibrated, (coin, faint), strict=False):
        search = replace(SEARCH, budget=4000)
        alone = epsilometer.calibrate(TEXTS, mechanism, target=1.0, search=search, design=DESIGN).to_dicts()[0]
        assert {name: alone[name] for name in row} == row
    first, second = at.subjects
    assert first.epsilon < second.epsilon
    assert not at.is_complete


def test_pairs_are_compared_on_the_same_trials_of_texts_of_equal_length(at: AtLoss) -> None:
    side = compared_at(at, WhichText(), 300)
    assert [row["mechanism"] for row in side.figures] == ["coin", "faint"]
    assert [(row["first"], row["second"], row["figure"]) for row in side.compared] == [("coin", "faint", "lexical")]
    alone = compare(WhichText(), *at.subjects, 300).to_dicts()
    assert [{name: row[name] for name in alone[0]} for row in side.compared] == alone
    assert {*at.subjects[0].pool.groups} == {5}
    assert all(row["low"] < 1 < row["high"] for row in side.figures)


def test_all_pairs_share_one_correction() -> None:
    at = calibrated_to(TEXTS, [least, blank], 1.0, replace(SEARCH, budget=2000), design=DESIGN)
    assert at.subjects == []
    assert compared_at(at, WhichText()).figures == []
    subjects = [epsilometer.subject(TEXTS, each, 1.0, ["lexical"], design=DESIGN) for each in (coin, faint, least)]
    three = replace(at, subjects=subjects)
    rows = compared_at(three, WhichText(), 200).compared
    assert [(row["first"], row["second"]) for row in rows] == [("coin", "faint"), ("coin", "least"), ("faint", "least")]
    assert rows[1]["p value"] < rows[1]["p Holm"] == pytest.approx(3 * rows[1]["p value"])


@pytest.mark.parametrize(
    ("mechanisms", "texts", "target", "code"),
    [
        (["identity"], TEXTS, 1.0, "EPS-Q071"),
        (["identity", "identity"], TEXTS, 1.0, "EPS-Q071"),
        ([coin, "identity"], TEXTS, 1.0, "EPS-Q002"),
        ([coin, faint], TEXTS, -1.0, None),
        ([coin, faint], ["a", "b c", "d e f"], 1.0, "EPS-A190"),
    ],
)
def test_bad_input_is_refused_before_any_rewrite(
    mechanisms, texts, target: float, code: str | None, monkeypatch
) -> None:
    monkeypatch.setattr("epsilometer.auditing.calibration.search.rewrite_all", lambda *_, **__: pytest.fail("rewrote"))
    with pytest.raises(epsilometer.UserError) as raised:
        calibrated_to(texts, mechanisms, target, SEARCH, design=DESIGN)
    assert code is None or raised.value.code == code


def test_a_cell_rounds_its_interval_outward() -> None:
    assert cell(0.82, 0.6, 1.1) == ".82 [.6, 1.1]"
    assert cell(0.0, -0.014, 0.501) == ".00 [-.02, .51]"
    assert cell(41.85, 36.32, 45.44) == "41.9 [36.3, 45.5]"
    assert cell(100.0, 100, 120.2) == "100 [100, 121]"
    assert cell(float("inf"), 5.1, float("inf")) == "∞ [5.1, ∞]"


def test_signs_of_latex_are_escaped() -> None:
    assert tex(r"a_b & 5 % of {x} \n ε") == r"a\_b \& 5 \% of \{x\} \textbackslash{}n $\varepsilon$"
    assert tex("#1 $2 ~ ^ ∞") == r"\#1 \$2 \textasciitilde{} \textasciicircum{} $\infty$"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Article, Path]:
    at = calibrated_to(TEXTS, [coin, faint, least], 1.0, replace(SEARCH, budget=4000), design=DESIGN)
    losses, alike = compared_at(at, WhichText(), 300), compared_at(at, Similarity(), 100)
    shown = Article(
        target=1.0,
        source="a_b.csv",
        texts=at.texts,
        matched=True,
        alpha=0.01,
        calibrated=at.calibrated,
        losses=losses.figures,
        leaks=losses.compared,
        similarities=alike.figures,
        keeps=alike.compared,
    )
    folder = tmp_path_factory.mktemp("paper")
    shown.write(folder)
    return shown, folder


def test_the_table_is_latex(written: tuple[Article, Path]) -> None:
    _, folder = written
    table = (folder / "at-loss-table.tex").read_text()
    assert r"60 texts of a\_b.csv" in table
    assert r"\label{tab:at-loss}" in table
    assert "least & -- & not calibrated (outside) & -- & -- \\\\" in table
    number = r"\.\d\d|\d\.\d\d"
    assert re.search(rf"coin & \S+ \[\S+, \S+\] & ({number}) \[\S+, \S+\] & lexical & ({number}) \[", table)
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {4}
    assert table.count("{") == table.count("}")
    assert not re.search(r"(?<!\\)%", table)


def test_sentences_say_what_how_much_and_how_sure(written: tuple[Article, Path]) -> None:
    shown, folder = written
    said = "\n".join(shown.sentences)
    assert "No epsilon was found at which least has an empirical loss of 1 nat" in said
    (row,) = shown.leaks
    only = f"only the source of coin's rewrite in {row['first more']:,} trials, and only that of faint's in"
    assert f"{only} {row['second more']:,}" in said
    assert "(McNemar's exact test, p = " in said
    assert "there is no evidence that coin and faint leak differently" in said
    assert 0 < row["detectable"] < 0.2
    assert f"{100 * row['detectable']:.1f} percentage points of all trials" in said
    for each in (*shown.leaks, *shown.keeps):
        assert (each["detectable"] is None) == (each["p Holm"] <= 0.01)
    assert said.count("99 % interval") == 4
    assert "after Holm" not in said, "one comparison is not corrected"
    assert (folder / "at-loss-text.tex").read_text() == "\n".join(map(tex, shown.sentences)) + "\n"


def test_the_figure_is_a_pdf_with_a_mark_for_each_mechanism(written: tuple[Article, Path]) -> None:
    shown, folder = written
    assert (folder / "at-loss.pdf").read_bytes().startswith(b"%PDF")
    (losses, similar) = shown.figure["hconcat"]
    points = losses["layer"][-1]["data"]["values"]
    assert [row["mechanism"] for row in points] == ["coin", "faint"]
    assert points[0]["point"] == shown.losses[0]["point"]
    assert len(similar["layer"]) == 2


def test_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epsilometer.cells.calibrating.losses.WIDTH", 3.0)  # a short search
    Path("texts.txt").write_text("\n".join(TEXTS))
    Path("mine.py").write_text(MINE)
    Path("half.py").write_text(MINE.replace("epsilon / 2", "epsilon / 4"))
    at = ["mine.py", "half.py", "texts.txt", "--at-loss", "1", "--match", "words"]
    at += ["--trials", "200", "--budget", "9000"]
    code, out, err = call(capsys, "compare", *at, "--out", "out")
    assert code == 0, err
    assert {path.name for path in Path("out").iterdir()} == {"at-loss.pdf", "at-loss-table.tex", "at-loss-text.tex"}
    assert "mine and half leak differently" in out
    assert "calibration 2 of 2: half.py: epsilon" in err
    code, both, _ = call(capsys, "compare", *at, "--json")
    assert code == 0
    assert json.loads(both)[0]["finding"].startswith("no evidence that mine.py=")
    code, _, err = call(capsys, "compare", *at, "--question", "similarity", "--budget", "200")
    assert code == 3, err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["compare", "a=1", "b=1", "texts.txt", "--match", "words"], "EPS-U092"),
        (["compare", "a=1", "b", "texts.txt", "--at-loss", "1"], "EPS-U093"),
        (["compare", "a", "b", "--at-loss", "1"], "EPS-U093"),
        (["compare", "a=1", "b=1", "texts.txt", "--out", "out"], "EPS-U092"),
        (["compare", "a=1", "b=1", "texts.txt", "--set", "m=2"], "EPS-U092"),
        (["compare", "a=1", "b=1,c=1", "texts.txt"], "EPS-U091"),
        (["compare", "tem", "tem", "texts.txt", "--at-loss", "1", "--out", "out"], "EPS-Q071"),
        (["compare", "tem", "mvc", "texts.txt", "--at-loss", "1", "--out", "texts.txt/x"], "EPS-U059"),
        (["compare", "tem", "mvc", "texts.txt", "--at-loss", "1", "--out", "out", "--trials", "0"], "EPS-A178"),
        (["compare", "tem", "mvc", "texts.txt", "--at-loss", "1", "--out", "o", "--question", "tail"], "EPS-U125"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str], code: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(TEXTS))
    ended, _, err = call(capsys, *words)
    assert ended == 2
    assert f"[{code}]" in err


def test_an_article_asks_both_questions() -> None:
    with refused("EPS-Q071"):
        article(TEXTS, ["identity"], 1.0, SEARCH)
