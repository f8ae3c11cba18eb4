"""Runs pytest, and once more the tests that failed, by name: one that passes then is flaky, and fails nothing.

usage: python .ci/twice.py OPTIONS-OF-PYTEST

The exit code is pytest's own where something else is wrong: no test ran, a module could not be collected, a worker
crashed, the run was interrupted. It is also pytest's own where more tests failed than a busy machine explains.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

MOST = 50  # failed tests that are run again


class Record:
    """The names of tests that passed and failed, and of what failed without being a test."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.broken: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            self.passed |= {report.nodeid} if report.when == "call" and report.passed else set()
        elif report.when in ("setup", "call", "teardown"):
            self.failed.add(report.nodeid)
        else:  # of a worker that crashed
            self.broken.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.add(report.nodeid)


def tried(options: list[str]) -> tuple[int, Record]:
    """Run pytest in this process. Returns its exit code."""
    record = Record()
    return int(pytest.main(options, plugins=[record])), record


def apart(options: list[str]) -> tuple[int, Record]:
    """As `tried`, in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(tried, options).result()


def main(options: list[str]) -> int:
    """Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*options, "-o", f"cache_dir={folder}"]
        code, first = apart(options)
        if code != pytest.ExitCode.TESTS_FAILED or first.broken or not 0 < len(first.failed) <= MOST:
            return code
        say("Tests that failed and are run once more", first.failed)
        code, second = apart([*options, "--last-failed", "--last-failed-no-failures=none"])
    if left := first.failed - second.passed | second.failed | second.broken:
        say("Tests that failed twice", left)
        return code or pytest.ExitCode.TESTS_FAILED
    say("Flaky tests, which failed and then passed the second time", first.failed)
    return code


def say(what: str, names: set[str]) -> None:
    """Print a line, and one for each name."""
    print(f"\n{what}:", *sorted(names), sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
