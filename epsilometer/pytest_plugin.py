"""Pytest fixture that fails a test if a rewriter leaks too much. Pytest finds it if epsilometer is installed.

def test_it_hides_who_wrote(assert_leaks_at_most):
    assert_leaks_at_most(rewrite, texts, loss=1.0, identifiers=0.05)
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypedDict, Unpack

import pytest

_NAME = "assert_leaks_at_most"
_before: set[threading.Thread] = set()  # the threads that ran before the first rewriter
_left = False  # True if a check has left threads behind


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Withhold printed output if any test uses the fixture, since rewriters may print texts. Show pytest's report."""
    from epsilometer.runtime.withholding import shows

    if not shows() and any(_uses(item) for item in session.items):
        _redirect(session.config)
        _hide_messages()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Omit a test's printed and logged output from its report if a rewriter may have written it."""
    from epsilometer.runtime.withholding import WHY, shows

    global _left
    report = yield
    _left = _left and not _before.issuperset(threading.enumerate())
    if not shows() and (_uses(item) or _left):
        report.sections = [(name, WHY) for name, _ in report.sections]
    return report


def _uses(item: pytest.Item) -> bool:
    return _NAME in getattr(item, "fixturenames", ())


def _redirect(config: pytest.Config) -> None:
    """Redirect file descriptors 1 and 2 until the process ends, since a rewriter's threads may still print later.

    During a test, pytest replaces the two descriptors by its own files. It then restores the redirected descriptors.
    """
    capture, reporter = (config.pluginmanager.getplugin(name) for name in ("capturemanager", "terminalreporter"))
    if capture is not None:
        capture.stop_global_capturing()
    writer: Any = None if reporter is None else config.get_terminal_writer()
    if writer is not None and _descriptor(writer._file) in (1, 2):
        place = os.dup(writer._file.fileno())
        writer._file = os.fdopen(place, "w", encoding=writer._file.encoding, errors="backslashreplace", buffering=1)
    with tempfile.TemporaryFile() as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    if capture is not None:
        capture.start_global_capturing()
        capture.suspend_global_capture()


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):  # a replacement stream without a descriptor
        return None


def _hide_messages() -> None:
    """Remove messages from pytest's warnings on errors in threads and in `__del__`. A message may quote a text."""
    from epsilometer.runtime.withholding import WHY, traceback_of

    of_threads, of_others = threading.excepthook, sys.unraisablehook

    def hidden(error: BaseException | None) -> RuntimeError:
        return RuntimeError(WHY if error is None else f"{traceback_of(error)}: message {WHY}")

    def in_thread(raised: threading.ExceptHookArgs) -> None:
        of_threads(threading.ExceptHookArgs((RuntimeError, hidden(raised.exc_value), None, raised.thread)))

    def elsewhere(raised: Any) -> None:
        shown = {"exc_type": RuntimeError, "exc_value": hidden(raised.exc_value), "exc_traceback": None}
        of_others(SimpleNamespace(**shown, err_msg=None, object=None))

    threading.excepthook, sys.unraisablehook = in_thread, elsewhere


@contextmanager
def _checking() -> Iterator[None]:
    """Withhold what the rewriter prints and logs, and note which threads it leaves behind."""
    from epsilometer.runtime.withholding import shows, withheld

    global _left
    if not _left:
        _before.clear()
        _before.update(threading.enumerate())
    disabled = logging.root.manager.disable
    if not shows():
        logging.disable()
    try:
        with withheld():
            yield
    finally:
        logging.disable(disabled)
        _left = not _before.issuperset(threading.enumerate())


class Leaks(TypedDict, total=False):
    """Upper limits on the figures of a rewriter. A figure without an entry is not limited.

    loss: the largest loss of each attack, in nats.
    delta_at_4: the largest tail (delta at 4 nats). An average loss does not show the tail.
    identifiers: the largest share of identifiers of a kind that may survive, or a pair of this share and the kinds to
    count. The identifiers are planted or recorded (`surviving_identifiers`).
    attribute: a pair. Its first entry limits the loss, in nats, of attackers who infer an attribute from rewrites. Its
    second entry is the attribute's column in a table of texts (`a,b` joins two columns).
    limits: pairs of any other question (name, file or object) and its limit:
    `[("which_unit", 1.0), (question("linking", {"author": "author"}), 1.0)]`.
    """

    loss: float
    delta_at_4: float
    identifiers: float | tuple[float, Sequence[str]]
    attribute: tuple[float, str]
    limits: Sequence[tuple[Any, float]]


@pytest.fixture
def assert_leaks_at_most() -> Callable[..., None]:
    """Return a check that fails if a rewriter exceeds a limit, or if `budget` rewrites are too few to decide."""
    import polars as pl

    from epsilometer.auditing.gate_statistics import STANDARD
    from epsilometer.auditing.question import question
    from epsilometer.auditing.subject import subject
    from epsilometer.auditing.text_audit import Named
    from epsilometer.core.errors import UserError, unknown
    from epsilometer.doors.gate import Rules, gate
    from epsilometer.report.gate import Decision, lines

    def limits(leaks: Leaks) -> Iterator[tuple[Any, float]]:
        if "loss" in leaks:
            yield question("which_text"), leaks["loss"]
        if "delta_at_4" in leaks:
            yield question("tail"), leaks["delta_at_4"]
        if "identifiers" in leaks:
            both = leaks["identifiers"]
            rate, kinds = both if isinstance(both, tuple) else (both, None)
            yield question("identifiers", {"kinds": kinds}), rate
        if "attribute" in leaks:
            most, column = leaks["attribute"]
            yield question("attribute", {"attribute": column}), most
        for asked_for, most in leaks.get("limits", ()):
            yield question(asked_for), most

    def check(
        rewrite: Named,
        texts: Sequence[str] | pl.DataFrame,
        *,
        epsilon: float | None = None,
        budget: int = 20_000,
        **leaks: Unpack[Leaks],
    ) -> None:
        """Assert that a rewriter keeps its limits.

        rewrite, texts, epsilon: as in `epsilometer.audit`. budget: the largest number of rewrites. leaks: `Leaks`.
        """
        __tracebackhide__ = True  # else pytest prints local variables, which hold texts
        for name in leaks.keys() - Leaks.__annotations__.keys():
            raise unknown("limit", name, Leaks.__annotations__)
        rules = Rules([*limits(leaks)], budget=budget)
        of = subject(texts, rewrite, epsilon)
        try:
            with _checking():
                verdict = gate(of, rules)
        except UserError as error:
            raise error.with_traceback(None) from None  # the message says everything, so the traceback is left out
        decision = Decision.of(of, STANDARD, verdict)
        assert verdict.status.passes, "\n".join(lines(decision))

    return check
