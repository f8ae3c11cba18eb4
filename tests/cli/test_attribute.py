"""`epsilometer ask attribute --rewrites`: from files to what attackers infer."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.support.commands import call
from tests.support.marked import rewritten, swapped, texts


def test_rewrites_made_elsewhere_are_attacked_by_those_who_know_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    test, train = rewritten(texts(60, 0), swapped), rewritten(texts(120, 500), swapped)
    for name, part in (("texts", test), ("train", train)):
        pl.DataFrame({"review": part.originals, **part.labels}).write_csv(f"{name}.csv")
    columns = {"original": [*test.originals, *train.originals], "rewrite": [*test.rewrites, *train.rewrites]}
    pl.DataFrame(columns).write_csv("made.csv")
    labels = ("--with=attribute=gender", "--with=keep=rating", "--with=labelled=train.csv", "--with=kinds=[linear]")
    options = ("attribute", "texts.csv", "--rewrites", "made.csv", "--text", "review", *labels)
    code, out, err = call(capsys, "ask", *options, "--json")
    assert (code, err) == (0, "note: a combination of 2 attributes (their exclusive or) is not covered\n")
    rows = {row["attacker"]: row for row in json.loads(out)}
    assert (rows["static"]["rs_all"], rows["static"]["accuracy"]) == (1, 0)
    assert rows["adaptive"]["accuracy"] == rows["strongest"]["accuracy"] == 1
    nothing_kept = [word for word in options if word != "--with=keep=rating"]
    code, out, _ = call(capsys, "ask", *nothing_kept, "--json")
    rows = {row["attacker"]: row for row in json.loads(out)}
    assert (code, rows["static"]["rs_all"], rows["static"]["ur"], rows["static"]["task_f1"]) == (0, 1, None, None)
    joint = [word.replace("=gender", "=gender,rating") for word in nothing_kept]
    code, out, err = call(capsys, "ask", *joint, "--json")
    assert (code, err) == (0, "note: a combination of 3 attributes (their exclusive or) is not covered\n")
    assert max(row["classes"] for row in json.loads(out)) == 4
    code, out, _ = call(capsys, "ask", *options)
    victims, attackers = out.split("\n\n")
    assert "rs_all" in victims
    assert [line.split()[1] for line in attackers.splitlines()[1:4]] == ["clean", "static", "relabelled"]
    pl.DataFrame({"review": test.originals, **test.labels}).head(6).write_csv("texts.csv")
    attackers = call(capsys, "ask", *options)[1].split("\n\n")[1]
    assert all("not testable" in line for line in attackers.splitlines()[1:]), "six right guesses prove nothing"


def test_what_has_no_effect_beside_an_attribute_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    part = rewritten(texts(60, 0), swapped)
    pl.DataFrame({"text": part.originals, **part.labels}).write_csv("texts.csv")
    pl.DataFrame({"original": part.originals, "rewrite": part.rewrites}).write_csv("made.csv")
    arguments = ("ask", "attribute", "texts.csv", "--rewrites", "made.csv", "--with", "attribute=gender")
    for idle in (("--trials", 100), ("--attacks", "lexical")):
        code, out, err = call(capsys, *arguments, *idle)
        assert (code, out) == (2, "")
        assert idle[0] in err
    fresh = ("ask", "attribute", "texts.csv", "--mechanism", "identity", "--temperature", 0)
    code, _, err = call(capsys, *fresh, "--with", "attribute=gender", "--with", "keep=rating")
    assert (code, "are for recorded rewrites" in err) == (2, True)
