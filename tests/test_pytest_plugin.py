"""The fixture shows nothing that a rewriter prints, logs or raises, even after its check."""

from __future__ import annotations

import pytest

from epsilometer.core.file_names import SHOW

pytest_plugins = ["pytester"]

SECRET = "zyxomma"
FILE = """
import atexit, logging, os, sys, threading, time

TEXTS = [f"zyxomma {who} wants {what} at {when}" for who in "ab" for what in ("tea", "milk") for when in "12345"]
begun = []

def prints(text):
    while True:
        print(text, flush=True)
        print(text, file=sys.stderr, flush=True)
        os.write(1, text.encode())
        os.write(2, text.encode())
        logging.error(text)
        time.sleep(0.01)

def raises(text):
    raise ValueError(text)

class Dies:
    def __init__(self, text):
        self.text = text

    def __del__(self):
        raise ValueError(self.text)

def rewrite(text, rng):
    print(text)
    logging.error(text)
    if not begun:
        begun.append(1)
        Dies(text)
        atexit.register(time.sleep, 0.5)
        atexit.register(print, text, flush=True)
        threading.Thread(target=prints, args=(text,), daemon=True).start()
        threading.Thread(target=raises, args=(text,)).start()
    return text

def test_it_leaks(assert_leaks_at_most):
    assert_leaks_at_most(rewrite, TEXTS, loss=1.0, budget=400)

def test_of_something_else():
    time.sleep(0.2)
    print("a word of its own")
    assert False
"""


@pytest.mark.parametrize("options", [(), ("-s", "-l")], ids=str)
def test_what_goes_on_after_the_check_prints_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.delenv(SHOW, raising=False)
    pytester.makepyfile(FILE)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tb=line", *options)
    done.assert_outcomes(failed=2, warnings=2)
    said = done.stdout.str() + done.stderr.str()
    assert "BEYOND" in said
    assert SECRET not in said


def test_a_session_without_the_fixture_shows_all(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHOW, raising=False)
    pytester.makepyfile("def test_it():\n    print('a word of its own')\n    assert False")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert "a word of its own" in done.stdout.str()
