"""The parts of a text that a mechanism does not read are counted and reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing import text_audit as api
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.unread import MUCH, say, unread
from epsilometer.cli import main
from epsilometer.core.mechanism import Unread
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt
from epsilometer.text.vectors import WordVectors
from tests.support import tiny_models

ENGLISH = ["show flights to boston", "play some jazz", "set an alarm", "flights to boston"]
CHINESE = [f"请帮我订 {word} 的机票" for word in ("北京", "上海", "广州", "深圳")]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    names = ["unknown", *dict.fromkeys(word for text in ENGLISH for word in text.split())]
    WordVectors(names, np.random.default_rng(0).normal(size=(len(names), 4))).save(tmp_path / "v.npz")
    return tmp_path / "v.npz"


@pytest.mark.parametrize(("texts", "share"), [(ENGLISH, 0.0), (CHINESE, 1.0), ([*ENGLISH, "play elsewhere"], 1 / 15)])
def test_an_audit_shows_the_share_of_unknown_words(
    vectors: Path, texts: list[str], share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    table = api.audit(texts, "tem", [8.0], ["length"], 50, settings={"resource": vectors}, design=Design(temperature=0))
    assert table["unknown_words"].unique().to_list() == [pytest.approx(share)]
    assert table["cut_texts"].to_list() == [None] * len(table)
    said = capsys.readouterr().err
    assert ("outside the mechanism's vocabulary" in said) == (share > 0)
    assert ("warning: 100.0% of the words" in said) == (share > MUCH)
    assert not any(text in said for text in texts)


def test_a_calibration_says_it(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mechanism = api.mechanism("tem", {"resource": vectors})
    search = epsilometer.Search(attack="length", low=1.0, high=20.0, budget=400)
    epsilometer.calibrate(CHINESE, mechanism, target=1.0, search=search, design=Design(temperature=0))
    assert "warning: 100.0% of the words" in capsys.readouterr().err


def test_a_rewrite_says_it(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("\n".join(CHINESE) + "\n")
    arguments = ["rewrite", "--mechanism", "tem", "--epsilon", "8", "--set", f"resource={vectors}"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, str(tmp_path / "t.txt")])
    assert ended.value.code == 0
    assert "warning: 100.0% of the words" in capsys.readouterr().err


@pytest.mark.parametrize("published", [False, True])
def test_texts_longer_than_what_is_read_or_written_are_counted(tmp_path: Path, published: bool) -> None:
    """Of the published form, which writes as much as it reads, only those that do not fit into the prompt."""
    mechanism = DPPrompt(
        resource=tiny_models.save_t5(tmp_path), clip=(-4.0, 4.0), max_new_tokens=4, as_published=published
    )
    texts = ["a b", "a b c", "a b c d", "a b c d e f", "a b c d " * 60]  # 3, 4, 5, 7 and 241 tokens, with the end token
    assert mechanism.unread(texts) == Unread(cut=1 if published else 3, texts=5)


def test_shares_are_said_once_and_by_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    say(Unread(cut=1, texts=50) + Unread(unknown=3, words=10))
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: 30.0% of the words")
    assert second == "note: 1 of 50 texts (2.0%) are longer than the mechanism's limit and are truncated"
    say(unread(None, ENGLISH))
    assert capsys.readouterr().err == ""
