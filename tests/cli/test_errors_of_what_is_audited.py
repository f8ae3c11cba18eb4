"""Whatever goes wrong in what is audited, a command ends with 2 and one line, and no text gets out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from epsilometer.core.file_names import SHOW
from epsilometer.report.gate import Result
from tests.support.commands import run
from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT

SECRET = "zyxomma"
TEXTS = "\n".join(f"{SECRET} wants {what} at {when}" for what in ("tea", "milk", "rum") for when in "12345")

FAILS = {
    "an error": "raise ValueError(text)",
    "an error that is named by the text": "raise type(text, (ValueError,), {})(text)",
    "an exit with a text": "sys.exit(text)",
    "an exit that looks like a pass": "sys.exit(0)",
    "an exit that looks like a leak": "sys.exit(1)",
    "an end of input": "raise EOFError(text)",
    "a closed pipe": "raise BrokenPipeError(32, text)",
    "a file that is not there": "open(text)",
    "no permission": "raise PermissionError(13, 'no', text)",
    "no exception": "raise type('Own', (BaseException,), {})(text)",
    "endless recursion": "rewrite(text, rng)",
}
WRITES = {
    "standard output": "print(text)",
    "standard error": "print(text, file=sys.stderr)",
    "native code": "os.write(1, text.encode()); os.write(2, text.encode())",
    "a program": "os.system(f'echo {text!r}; echo {text!r} >&2')",
}
AUDIT = ("audit", "--json", "--trials", "40")
GATE = ("gate", "--max-loss", "1", "--budget", "40")
FILES = {"--json": "g.json", "--junit": "g.xml", "--markdown": "g.md", "--sarif": "g.sarif"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SHOW, raising=False)
    sys.modules.pop("epsilometer_user_mine", None)  # of another test
    (tmp_path / "texts.txt").write_text(TEXTS)
    return tmp_path


def mechanism(body: str) -> str:
    Path("mine.py").write_text(f"import os, sys\ndef rewrite(text, rng):\n    {body}\n    return 'nothing'\n")
    return "mine.py"


def on_texts(command: tuple[str, ...], body: str) -> list[str]:
    name, *rest = command
    return [name, "texts.txt", "--mechanism", mechanism(body), "--attacks", "length", *rest]


@pytest.mark.parametrize("body", FAILS.values(), ids=FAILS)
def test_an_error_is_one_line_and_no_finding(capfd: pytest.CaptureFixture[str], body: str) -> None:
    """An earlier run's file, which says that all is well, is not what a reader finds."""
    Path("g.json").write_text('{"status": "passed"}')
    assert run(*on_texts(GATE, body), *(word for pair in FILES.items() for word in pair)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.partition(":")[0] for line in err.splitlines() if not line.startswith("note: ")] == ["error"]
    result = Result.model_validate_json(Path("g.json").read_text())
    assert (result.status, result.attacks) == ("error", [])
    suite = ElementTree.fromstring(Path("g.xml").read_text())
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    assert suite.find("testcase/error") is not None
    (of,) = json.loads(Path("g.sarif").read_text())["runs"]
    assert not of["invocations"][0]["executionSuccessful"]
    assert "ERROR" in Path("g.md").read_text()
    assert SECRET not in err + "".join(Path(name).read_text() for name in FILES.values())


@pytest.mark.parametrize("game", [(), ("--units",), ("--worst",)], ids=str)
def test_every_audit_ends_with_one_line(capfd: pytest.CaptureFixture[str], game: tuple[str, ...]) -> None:
    assert run(*on_texts(AUDIT, FAILS["an error"]), *game) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "error: ValueError in mine.py, line 3" in err
    assert SECRET not in err


@pytest.mark.parametrize("body", WRITES.values(), ids=WRITES)
def test_what_is_written_keeps_to_itself(capfd: pytest.CaptureFixture[str], body: str) -> None:
    """What a mechanism prints is no part of a result either."""
    assert run(*on_texts(AUDIT, body)) == 0
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert json.loads(out)[0]["trials"] == 40
    assert "bytes of other output withheld" in err
    print("and afterwards it is shown again")
    os.write(2, b"by all")
    assert capfd.readouterr() == ("and afterwards it is shown again\n", "by all")


def test_a_publication_holds_rewrites_alone(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["rewrite", "texts.txt", "--mechanism", mechanism(WRITES["standard output"])]
    assert run(*words) == 0
    out, err = capfd.readouterr()
    assert out == "nothing\n" * len(TEXTS.splitlines())
    assert SECRET not in err


@pytest.mark.parametrize("by", ["the environment", "the option"])
@pytest.mark.parametrize("body", [FAILS["an error"], WRITES["standard error"]], ids=["raised", "written"])
def test_all_is_shown_on_demand(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: str, by: str
) -> None:
    monkeypatch.setenv(SHOW, "1" if by == "the environment" else "")  # which the option sets
    option = ["--show-errors"] if by == "the option" else []
    assert run(*option, *on_texts(AUDIT, body)) == (2 if "raise" in body else 0)
    assert SECRET in capfd.readouterr().err


@pytest.mark.parametrize("show", [False, True])
def test_a_programs_last_words_are_withheld(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, show: bool
) -> None:
    if show:
        monkeypatch.setenv(SHOW, "1")
    program = f"{sys.executable} -c 'import sys; sys.exit(sys.stdin.read())'"
    assert run("gate", "texts.txt", "--command", program, "--attacks", "length", "--max-loss", "1") == 2
    err = capfd.readouterr().err
    assert "failed with exit status 1" in err
    assert (SECRET in err) is show


def test_a_mechanism_that_leaves_the_process_is_an_error() -> None:
    """As the program that is installed runs it; 0 would read as passed."""
    words = [*on_texts(GATE, "os._exit(0)"), "--json", "g.json"]
    done = subprocess.run(
        [sys.executable, "-m", "epsilometer.cli", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LAST_RESORT,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "before there was a result" in done.stderr
    assert Result.model_validate_json(Path("g.json").read_text()).status == "error"
