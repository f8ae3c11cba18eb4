"""The question in docs/concepts/questions.md, asked from its file in every way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.support.combinations import DOORS, opens
from tests.support.commands import call
from tests.support.places import ROOT

SHOWN = re.search(
    r"```python\n(# keeps_length.py\n.*?)```", (ROOT / "docs/concepts/questions.md").read_text(), re.DOTALL
)
QUICK = ("--attacks", "lexical", "--trials", 200)
FIGURE = ("--question", "keeps_length.py")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Thirty texts and the question's file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [f"the {a} was {b}" for a in "abcdefghij" for b in ("cold", "kind", "so very late")]
    pl.DataFrame({"text": rows}).write_csv("texts.csv")
    assert SHOWN is not None
    Path("keeps_length.py").write_text(SHOWN[1])
    return Path("texts.csv")


def test_it_works_in_every_way_to_ask(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    """The identity keeps every length, a constant those of 20 of 30 texts at most."""
    limit = ("--limit", "keeps_length.py=.9")

    def code(*words: object) -> int:
        return call(capsys, *words)[0]

    identity, constant = ("--mechanism", "identity"), ("--mechanism", "constant")
    assert code("gate", texts, *identity, *limit) == 1
    assert code("gate", texts, *constant, *limit) == 0
    assert code("decide", texts, *identity, *limit, *QUICK) == 1
    assert code("decide", texts, *constant, *limit, *QUICK) == 0
    _, out, _ = call(capsys, "ask", "keeps_length.py", texts, *identity, *QUICK, "--json")
    assert json.loads(out)[0]["low"] > 0.9
    _, out, _ = call(capsys, "compare", "identity", "constant", texts, "--trials", 200, *FIGURE, "--json")
    assert json.loads(out)[0]["second more"] == 0 < json.loads(out)[0]["first more"]
    assert code("reaudit", texts, *constant, "--baseline", "b.json", "--accept", *FIGURE, *QUICK) == 0
    assert code("reaudit", texts, *constant, "--baseline", "b.json", *QUICK) == 0
    searched = ("calibrate", texts, "--mechanism", "randomized_response", "--target", ".8", *FIGURE)
    assert code(*searched, "--low", 1, "--high", 20, "--width", 3) in (0, 3)


def test_it_opens_every_door_and_bad_input_is_refused(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    from epsilometer.auditing.question import question

    asked_for = question("keeps_length.py", {"more": 1})
    assert all(opens(asked_for, door) for door in DOORS)
    for words in (
        ("--limit", "keeps_length.py=2"),
        ("--limit", "keeps_length.py=.5", "--with", "keeps_length.py.les=1"),
    ):
        assert call(capsys, "gate", texts, "--mechanism", "identity", *words)[0] == 2
