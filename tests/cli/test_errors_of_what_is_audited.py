"""If an audited mechanism fails, a command ends with code 2 and one line, which contains no text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import epsilometer
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
GATE = ("gate", "--limit", "which_text=1", "--budget", "40")
FILES = {"json": "g.json", "junit": "g.xml", "markdown": "g.md", "sarif": "g.sarif"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SHOW, raising=False)
    sys.modules.pop("epsilometer_user_mine", None)  # loaded by another test
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
    assert (
        run(*on_texts(GATE, body), *(word for form, file in FILES.items() for word in ("--report", f"{form}={file}")))
        == 2
    )
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.partition(":")[0] for line in err.splitlines() if not line.startswith("note: ")] == ["error"]
    result = Result.model_validate_json(Path("g.json").read_text())
    assert (result.passed, result.status, result.attacks) == (False, None, [])
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
    assert "bytes of other output are withheld" in err
    print("and afterwards it is shown again")
    os.write(2, b"by all")
    assert capfd.readouterr() == ("and afterwards it is shown again\n", "by all")


REFUSED = {  # a function's result or error for one text, and words that the message must contain
    "None if '3' in text and 'tea' in text else 'x'": ["NoneType for text 3 of 15", "let it raise", "hidden"],
    "type('Answer', (), {'text': 'x'})() if '3' in text and 'tea' in text else 'x'": [
        "Answer for text 3 of 15",
        ".text",
    ],
    "'\\ud83d' if '3' in text and 'tea' in text else 'x'": ["a lone surrogate", "text 3 of 15"],
    "{}[text] if '3' in text and 'tea' in text else 'x'": ["KeyError in mine.py, line 3 (raised on text 3 of 15)"],
}


@pytest.mark.parametrize("returned", REFUSED)
@pytest.mark.parametrize("command", [AUDIT, GATE], ids=["audit", "gate"])
def test_the_text_that_a_function_fails_on_is_named_by_its_number(
    capfd: pytest.CaptureFixture[str], command: tuple[str, ...], returned: str
) -> None:
    assert run(*on_texts(command, f"return {returned}")) == 2
    said = capfd.readouterr().err
    assert all(part in said for part in REFUSED[returned]), said
    assert SECRET not in said
    assert "return ''" not in said


def test_an_error_in_python_names_the_text_too() -> None:
    texts = TEXTS.splitlines()

    def fails(text: str, rng: object) -> str:
        return {}[text] if text == texts[7] else "x"  # type: ignore[no-any-return]

    with pytest.raises(KeyError) as error:
        epsilometer.audit(texts, fails, attacks=["length"], trials=200, design=epsilometer.Design(temperature=0))
    assert error.value.__notes__ == ["raised on text 8 of 15"]


def test_empty_and_equal_rewrites_of_a_function_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    """They are its own, so that they decide nothing."""
    assert run(*on_texts(AUDIT, "return '' if 'tea' in text else text")) == 0
    shown = capfd.readouterr()
    (row,) = json.loads(shown.out)
    assert 0 < row["empty"] < 40
    assert f"note: {row['empty']} empty of 40 rewrites" in shown.err
    assert not row["constant"]
    assert run(*on_texts(AUDIT, "return ''")) == 0
    shown = capfd.readouterr()
    assert "all 40 rewrites are equal" in shown.err
    assert json.loads(shown.out)[0]["constant"]
    assert (
        run(*on_texts(("gate", "--limit", "which_text=3", "--budget", "200", "--report", "json=g.json"), "return ' '"))
        == 0
    )
    assert "all 200 rewrites are equal" in capfd.readouterr().out
    answers = json.loads(Path("g.json").read_text())["answers"]
    assert (answers["empty"], answers["missing"], answers["constant"]) == (200, 0, True)


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
    monkeypatch.setenv(SHOW, "1" if by == "the environment" else "")  # the option sets this variable
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
    assert run("gate", "texts.txt", "--command", program, "--attacks", "length", "--limit", "which_text=1") == 2
    err = capfd.readouterr().err
    assert "failed with exit status 1" in err
    assert (SECRET in err) is show


GOES_ON = """
import atexit, os, sys, threading, time

begun = []

def prints(text):
    while True:
        print(text, flush=True)
        print(text, file=sys.stderr, flush=True)
        os.write(1, text.encode())
        os.write(2, text.encode())
        time.sleep(0.001)

def raises(text):
    raise ValueError(text)

class Dies:
    def __init__(self, text):
        self.text = text

    def __del__(self):
        raise ValueError(self.text)

def rewrite(text, rng):
    if not begun:
        begun.append(Dies(text))
        atexit.register(time.sleep, 0.5)
        atexit.register(print, text, flush=True)
        threading.Thread(target=prints, args=(text,), daemon=True).start()
        threading.Thread(target=raises, args=(text,)).start()
    return "nothing"
"""


@pytest.mark.parametrize(
    "words",
    [(*GATE, "--attacks", "length"), (*AUDIT, "--attacks", "length"), ("rewrite",)],
    ids=["gate", "audit", "rewrite"],
)
def test_what_goes_on_after_the_result_prints_nothing(words: tuple[str, ...]) -> None:
    """Threads, their errors, and what runs at exit: from the command's start to the end of its process."""
    Path("mine.py").write_text(GOES_ON)
    command, *rest = words
    done = subprocess.run(
        [sys.executable, "-m", "epsilometer.cli", command, "texts.txt", "--mechanism", "mine.py", *rest],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=LAST_RESORT,
    )
    assert done.stdout
    assert SECRET.encode() not in done.stdout + done.stderr
    assert b"bytes of other output are withheld" in done.stderr


def test_a_mechanism_that_leaves_the_process_is_an_error() -> None:
    """As the program that is installed runs it; 0 would read as passed."""
    words = [*on_texts(GATE, "os._exit(0)"), "--report", "json=g.json"]
    done = subprocess.run(
        [sys.executable, "-m", "epsilometer.cli", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LAST_RESORT,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "without a result" in done.stderr
    assert Result.model_validate_json(Path("g.json").read_text()).error is not None
