"""CI's second run of failed tests, on suites of three tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT

# Each fails in a different way; `once` fails only the first time.
TESTS = {
    "passes": "def test_passes(): pass",
    "once": "def test_once(): seen, _ = Path('seen').exists(), Path('seen').touch(); assert seen",
    "fixture": "@pytest.fixture\ndef late(): seen, _ = Path('seen').exists(), Path('seen').touch(); assert seen\n"
    "def test_fixture(late): pass",
    "always": "def test_always(): assert False",
    "skipped": "def test_skipped():\n    seen, _ = Path('skips').exists(), Path('skips').touch()\n"
    "    pytest.skip() if seen else pytest.fail()",
    "crashes": "def test_crashes():\n    if not Path('seen').exists(): Path('seen').touch(); os._exit(1)",
    "broken": "import nothing_of_this_name",
    "interrupted": "def test_interrupted(): raise KeyboardInterrupt",
}


def twice(folder: Path, *names: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code for a suite of these tests, a file each, and what is printed."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --disable-plugin-autoload -p xdist.plugin\n")
    for name in names:
        (folder / f"test_{name}.py").write_text(f"import os\nfrom pathlib import Path\nimport pytest\n{TESTS[name]}\n")
    done = subprocess.run([sys.executable, str(ROOT / ".ci/twice.py"), "-q", *options], cwd=folder,
                          capture_output=True, text=True, timeout=LAST_RESORT)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "options"), [("fixture", ()), ("once", ("-n", "2", "--dist", "loadfile"))])
def test_what_passes_the_second_time_is_named_and_fails_nothing(
    tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    code, said = twice(tmp_path, "passes", name, options=options)
    assert code == 0, said
    before, named = said.split("passed the second time:\n")
    assert named.split() == [f"test_{name}.py::test_{name}"]
    assert before.split("run once more:\n")[1].split()[0] == f"test_{name}.py::test_{name}"
    assert "1 passed" in said.splitlines()[-4]  # pytest's closing line of the second run


def test_what_does_not_pass_the_second_time_fails(tmp_path: Path) -> None:
    code, said = twice(tmp_path, "passes", "once", "always", "skipped")
    assert code == 1, said
    twice_failed = said.split("failed twice:\n")[1].split()
    assert twice_failed == ["test_always.py::test_always", "test_skipped.py::test_skipped"]


def test_all_that_passes_is_run_once(tmp_path: Path) -> None:
    code, said = twice(tmp_path, "passes")
    assert code == 0
    assert "1 passed" in said.splitlines()[-1]
    assert said.count("passed") == 1


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        ((), (), {5}),
        (("passes", "broken"), (), {2}),
        (("passes", "broken"), ("-n", "2"), {1, 2}),
        (("passes", "once", "interrupted"), (), {2}),
        (("passes", "crashes"), ("-n", "2"), {1}),
        (("passes", "once"), ("--no-such-option",), {4}),
    ],
    ids=["no test", "not collected", "not collected by workers", "interrupted", "a worker crashes", "an option"],
)
def test_all_else_fails_at_once(
    tmp_path: Path, names: tuple[str, ...], options: tuple[str, ...], expected: set[int]
) -> None:
    code, said = twice(tmp_path, *names, options=options)
    assert code in expected, said
    assert "run once more" not in said


def test_ci_runs_the_tests_as_make_does() -> None:
    """With the second try in place of pytest."""
    ci = (ROOT / ".ci/run").read_text()
    assert 'make --jobs=2 lint test PYTEST="python .ci/twice.py"' in ci
    dry = [subprocess.run(["make", "-n", "test", *more], cwd=ROOT, capture_output=True, text=True, check=True).stdout
           for more in ([], ["PYTEST=python .ci/twice.py"])]  # fmt: skip
    assert dry[0].replace("OMP_NUM_THREADS=1 pytest", "OMP_NUM_THREADS=1 python .ci/twice.py") == dry[1] != dry[0]
