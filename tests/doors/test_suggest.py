"""Proposed limits are round numbers above today's leaks, and today's mechanism passes the generated workflow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from epsilometer.doors.suggest import LOSSES, SHARES, Proposal, workflow
from tests.support.commands import call
from tests.support.places import ROOT

MASKER = """
import re


def rewrite(text, rng):
    return re.sub(r"\\S+@\\S+", "someone", text)
"""
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Texts of 120 authors with a gender, which a word tells."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "text": f"person {i} of town{i} has a {'gown' if i % 2 else 'beard'}",
            "gender": "fm"[i % 2],
            "who": f"p{i // 2}",
        }
        for i in range(240)
    ]
    Path("people.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("masker.py").write_text(MASKER)
    Path("nothing.py").write_text("def rewrite(text, rng):\n    return 'nothing'\n")
    return tmp_path


def inputs_of(path: str) -> dict[str, str]:
    """The inputs that the workflow gives to the action."""
    (*_, step) = yaml.safe_load(Path(path).read_text())["jobs"]["gate"]["steps"]
    return step["with"]


def test_a_kind_that_is_hidden_gets_a_limit_which_the_gate_keeps(folder: Path, capsys) -> None:
    words = ["gate", "people.jsonl", "--mechanism", "masker.py"]
    code, out, err = call(capsys, *words, "--suggest", "privacy.yml")
    assert code == 0, err
    share = r"a share of at most 0\.04\d of each kind survives: e-mail address"
    assert re.search(rf"identifiers: a limit of 0\.05; {share}", out)
    assert "identifiers: no limit; 120 of 120 survive (name, " in out
    inputs = inputs_of("privacy.yml")
    assert inputs == {
        "texts": "people.jsonl",
        "mechanism": "masker.py",
        "limits": "identifiers=0.05",
        "with": "identifiers.kinds=[e-mail address]",
    }
    assert set(inputs) <= set(ACTION["inputs"])
    judged = [*words, "--limit", inputs["limits"], "--with", inputs["with"], "--budget", "100000"]
    assert call(capsys, *judged)[0] == 0


def test_attributes_and_linking_of_the_columns_that_are_named(folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("epsilometer.doors.suggest.TEXTS", 30)  # the fewest that can prove a limit of .2
    settings = [
        "--with",
        "attribute.attribute=gender",
        "--with",
        "attribute.kinds=[linear]",
        "--with",
        "linking.author=who",
    ]
    code, out, err = call(
        capsys, "gate", "people.jsonl", "--mechanism", "nothing.py", *settings, "--suggest", "a/b.yml"
    )
    assert code == 0, err
    limits = dict(line.split("=") for line in inputs_of("a/b.yml")["limits"].splitlines())
    assert set(limits) == {"identifiers", "attribute", "linking"}
    assert all(float(limits[name]) in LOSSES for name in ("attribute", "linking"))
    assert float(limits["identifiers"]) in SHARES
    assert "attribute.attribute=gender" in inputs_of("a/b.yml")["with"].splitlines()
    words = ["gate", "people.jsonl", "--mechanism", "masker.py", "--with", "attribute.attribute=gender"]
    quick = ["--with", "attribute.kinds=[linear]", "--with", "identifiers.kinds=[name]"]
    code, out, _ = call(capsys, *words, *quick, "--suggest", "c.yml")
    assert "attribute: no limit; attackers show" in out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--suggest", "x.yml", "--limit", "which_text=1"], "EPS-U094"),
        (["--suggest", "x.txt"], "EPS-U095"),
        (["--suggest", "x.yml", "--text", "text", "--text", "who"], "EPS-U096"),
    ],
)
def test_bad_options_are_refused_before_any_work(folder: Path, capsys, words: list[str], code: str) -> None:
    ended, _, err = call(capsys, "gate", "people.jsonl", "--mechanism", "masker.py", *words)
    assert (ended, f"[{code}]" in err) == (2, True)
    assert not list(folder.glob("x.*"))


def test_a_value_stays_a_value_in_the_workflow() -> None:
    proposal = Proposal("linking", 1.0, {"author": "a: b # c"}, "attackers show\n0.1")
    text = workflow({"texts": "t: 'x'.csv", "command": "a | b\nc"}, [proposal])
    read = yaml.safe_load(text)["jobs"]["gate"]["steps"][-1]["with"]
    assert read == {
        "texts": "t: 'x'.csv",
        "command": "a | b\nc",
        "limits": "linking=1",
        "with": "linking.author='a: b # c'",
    }
