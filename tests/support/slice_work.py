"""Functions for workers in tests, in a separate file that imports little."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from epsilometer.core.errors import UserError


def failing(error: Exception) -> Callable[[int], int]:
    def fail(number: int) -> int:
        if number == 3:
            raise error
        return number

    return fail


def deadly(folder: Path, deaths: int, pause: float = 0.0) -> Callable[[int], tuple[int, int]]:
    """Return squares and process numbers. Slice 0 pauses; slice 5 kills its worker, `deaths` times in all."""

    def work(number: int) -> tuple[int, int]:
        died = len(list(folder.iterdir()))
        if number == 5 and died < deaths:
            (folder / f"death-{died}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause if number == 0 else 0)
        return number * number, os.getpid()

    return work


_AT_LOADING = os.environ.get("OMP_NUM_THREADS")


def threads() -> Callable[[int], str | None]:
    """Return the OMP_NUM_THREADS that was set when this file was loaded."""
    return lambda number: _AT_LOADING


class Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, first: int, two: int) -> None:
        super().__init__("a private text")


def odd(number: int) -> int:
    raise Odd(1, 2)


def odd_builder() -> Callable[[int], int]:
    return odd


def no_builder() -> Callable[[int], int]:
    raise UserError("the model is not there; fetch it", "OWN-1")


def noting() -> Callable[[int], int]:
    """Note a batch with the slice's number of rows, and return the process number."""
    from epsilometer.runtime import batches

    return lambda part: batches.noted(f"model {part}", 1000, 0, each=10, rows=part) or os.getpid()


def addresses() -> Callable[[int], tuple[int, str]]:
    """Return squares, and the address of the node that computed them."""
    import ray

    def work(number: int) -> tuple[int, str]:
        time.sleep(0.1)
        return number * number, ray.util.get_node_ip_address()

    return work
