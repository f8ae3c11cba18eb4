"""A mechanism that forks for every text is stopped before it exhausts the machine."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from epsilometer.core.errors import disk_trouble
from epsilometer.core.mechanism import FunctionMechanism
from epsilometer.core.randomness import Noise
from epsilometer.runtime.confining import confine

NOBODY = 65534


def in_child(work: Callable[[], str]) -> str:
    """Return the answer of the function in a process of its own; for root, as a user without rights."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            said = work()
        except BaseException as error:
            said = f"{disk_trouble(error) or type(error)}"
        os.write(theirs, f"{said}\n".encode())  # its child processes may hold the other end open
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as stream:
        said = stream.readline().strip()
    os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return said


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_PROCESSES", "20")


def forking(text: str, epsilon: float, rng: np.random.Generator) -> str:
    if not os.fork():
        signal.pause()
    return text


def rewriting() -> str:
    confine()
    texts = ["a text"] * 200
    FunctionMechanism(forking).rewrite(texts, 1.0, Noise.named(len(texts), 0))
    return "nothing stopped it"


def test_a_mechanism_that_forks_for_every_text_is_stopped_by_name() -> None:
    assert "EPSILOMETER_PROCESSES" in in_child(rewriting)


def threading_much() -> str:
    confine()
    ended = threading.Event()
    try:
        for _ in range(200):
            threading.Thread(target=ended.wait, daemon=True).start()
    finally:
        ended.set()
    return "nothing stopped it"


def test_threads_count_too() -> None:
    assert "EPSILOMETER_PROCESSES" in in_child(threading_much)


def test_the_bound_is_not_to_be_raised_and_inner_ones_stay_below() -> None:
    def bounds() -> str:
        confine()
        first = resource.getrlimit(resource.RLIMIT_NPROC)
        os.environ["EPSILOMETER_PROCESSES"] = "100000"
        confine()
        return f"{first[0] == first[1] and first == resource.getrlimit(resource.RLIMIT_NPROC)}"

    assert in_child(bounds) == "True"


def test_ordinary_work_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 threads, as tokenizers and BLAS start them on large machines, by the default."""
    monkeypatch.delenv("EPSILOMETER_PROCESSES")

    def work() -> str:
        confine()
        threads = [threading.Thread(target=int) for _ in range(64)]
        for thread in threads:
            thread.start()
        return "done"

    assert in_child(work) == "done"
