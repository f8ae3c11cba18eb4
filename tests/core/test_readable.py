"""Paths that cannot be read to an end are refused by commands and parameter files, in one line and with code 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from epsilometer.corpora.reading import read
from epsilometer.pipeline import params
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.refusals import refused

MAKES: dict[str, tuple[str, Callable[[str], object]]] = {
    "an empty word": ("", lambda name: None),
    "a pipe": ("pipe.txt", os.mkfifo),
    "a device": ("zero.txt", lambda name: os.symlink("/dev/zero", name)),
    "a circular link": ("loop.txt", lambda name: os.symlink("loop.txt", name)),
    "a long path": ("x" * 5000 + ".txt", lambda name: None),
    "a name that is no UTF-8": ("t\udcff.txt", lambda name: Path(name).write_text("a b\nc d\n")),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a b\nc d\n")
    return tmp_path


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize(
    "words",
    [
        ("rewrite", "{}", "--mechanism", "identity"),
        ("audit", "{}", "--mechanism", "identity"),
        ("gate", "{}", "--mechanism", "identity", "--limit", "which_text=1"),
        ("audit", "texts.txt", "--endpoint", "http://127.0.0.1:9", "--template", "{}", "--private-texts"),
        ("check", "params", "{}"),
    ],
    ids=lambda words: " ".join(words)[:24],
)
def test_it_is_one_line(capsys: pytest.CaptureFixture[str], kind: str, words: tuple[str, ...]) -> None:
    name, make = MAKES[kind]
    make(name)
    code, out, err = call(capsys, *(word.replace("{}", name) for word in words))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert "withheld" not in err
    assert len(err) < 300


@pytest.mark.parametrize("words", [("--out=",), ("--out", ""), ("--public", "")], ids=str)
def test_an_option_without_a_value_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, _, err = call(capsys, "rewrite", "texts.txt", "--mechanism", "identity", *words)
    assert code == 2
    assert "is empty" in err


def test_an_empty_variable_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty path means the current folder, whose texts are not those that the user named."""
    words = ("--endpoint", "http://127.0.0.1:9", "--model", "m", "--private-texts")
    code, _, err = call(capsys, "audit", "", *words)
    assert code == 2
    assert "argument 1 of audit is empty" in err
    with refused("EPS-C057"):
        read("")


def test_a_long_name_of_a_mechanism_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "rewrite", "texts.txt", "--mechanism", "x" * 5000 + ".py")
    assert (code, err.count("\n")) == (2, 1)
    assert "longer than the file system allows" in err


@pytest.mark.parametrize(
    ("source", "refusal"),
    [("", ("EPS-P060", "is empty")), ("\0", ("EPS-P058", "NUL")), ("a\0.txt", ("EPS-P058", "NUL"))],
)
def test_a_parameter_file_names_files(source: str, refusal: tuple[str, ...]) -> None:
    stated = (ROOT / "profiles/generated.yaml").read_text()
    assert "epsilometer/corpora/synthetic.py" in stated
    Path("params.yaml").write_text(stated.replace("epsilometer/corpora/synthetic.py", json.dumps(source)))
    with refused(*refusal, "datasets.queries.source"):
        params.read()


def test_a_parameter_file_is_a_file() -> None:
    os.mkfifo("params.yaml")
    with refused("EPS-C062"):
        params.read()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"])
def test_the_output_of_the_command_is_no_file(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """It is redirected, and as root the link itself would be replaced."""
    code, _, err = call(capsys, "rewrite", "texts.txt", "--mechanism", "identity", "--out", name)
    assert code == 2
    assert "leave the option out" in err
    assert os.path.lexists(name)
