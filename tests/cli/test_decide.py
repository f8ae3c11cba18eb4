"""`epsilometer decide` and `reaudit`: exit codes, and written files."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.support.commands import call

TELLS = """
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Tells:
    has_budget = False
    share: float = 1.0

    def rewrite(self, texts, epsilon, noise):
        return Rewrites([t if u < self.share else "nothing" for t, u in zip(texts, noise.uniforms()[:, 0])])

    def guarantee(self, epsilon):
        return None
"""
QUICK = ("--attacks", "lexical", "--trials", "300")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Forty texts of ten authors, and a mechanism, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"the {a} was {b}", "who": a} for a in "abcdefghij" for b in ("cold", "kind", "late", "far")]
    pl.DataFrame(rows).write_csv("texts.csv")
    Path("tells.py").write_text(TELLS)
    return Path("texts.csv")


def test_budgets_are_decided_from_the_smallest_up(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    limits = ("--limit", "which_text=1", "--limit", "identifiers=.1", "--with", "identifiers.kinds=[date]")
    of = ("decide", texts, "--mechanism", "randomized_response")
    code, out, _ = call(capsys, *of, "--epsilons", "9,1", *limits, *QUICK, "--json")
    assert code == 1
    every = [(row["epsilon"], row["decision"]) for row in json.loads(out) if row["figure"] == "all"]
    assert every == [(1.0, "within"), (9.0, "beyond")]
    assert call(capsys, *of, "--epsilons", "1", *limits, *QUICK)[0] == 0
    assert call(capsys, *of, "--epsilons", "1", "--limit", "linking=1", "--with", "linking.author=none")[0] == 2
    few = ("--mechanism", "tells.py", "--set", "share=0", "--attacks", "lexical", "--trials", 4)
    assert call(capsys, "decide", texts, *few, "--limit", "which_text=1")[0] == 3


def test_a_change_since_the_baseline_is_found(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    of = ("reaudit", texts, "--mechanism", "tells.py", "--baseline", "b.json", *QUICK)
    chosen = ("--question", "which_text", "--question", "linking", "--with", "linking.author=who")
    settings = ("--with", "linking.among=4", "--with", "linking.attacks=[bm25]")
    assert call(capsys, *of, "--set", "share=.1", "--accept", *chosen, *settings)[0] == 0
    assert call(capsys, *of, "--set", "share=.1")[0] == 0
    code, out, _ = call(capsys, *of, "--set", "share=.9", "--json")
    assert code == 1
    changes = {row["figure"]: row["change"] for row in json.loads(out)}
    assert changes == {"which_text: lexical": "worse", "linking: bm25": "worse"}
    assert len(json.loads(Path("b.json").read_text())["reaudits"]) == 2
    assert call(capsys, *of, "--question", "which_text")[0] == 2
    assert call(capsys, *of, "--accept")[0] == 2
    assert call(capsys, "reaudit", texts, "--mechanism", "tells.py", "--baseline", "absent.json")[0] == 2
