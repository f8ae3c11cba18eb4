"""Limits on the resources of programs, endpoints and files: seconds, bytes, YAML nodes and processes.

Each limit stops something that could otherwise run forever or fill the memory. Limits cannot change a result, so the
environment sets them, not params.yaml.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from epsilometer.core.errors import UserError


@dataclass(frozen=True)
class Limit:
    """A whole number > 0: the value of the environment variable `variable`, or `default`."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit. Raises UserError if the variable is not a whole number > 0."""
        text = os.environ.get(self.variable, str(self.default))
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
            raise UserError(
                f"{self.variable} must be a whole number > 0, got {text[:40]!r}; for instance {self.default}",
                "EPS-C046",
            )
        return int(text)

    @property
    def remedy(self) -> str:
        """The instruction to raise the limit, for the end of a message."""
        return f"to allow more, raise {self.variable} (now {self.value})"


EXIT_SECONDS = Limit("EPSILOMETER_EXIT_SECONDS", 30)  # seconds from the end of the work, or Ctrl-C, to exit
YAML_NODES = Limit("EPSILOMETER_YAML_NODES", 100_000)  # values or lines that aliases may repeat in a parameter file
COMMAND_SECONDS = Limit("EPSILOMETER_COMMAND_SECONDS", 3600)  # seconds for one batch of an audited program
COMMAND_BYTES = Limit("EPSILOMETER_COMMAND_BYTES", 1 << 28)  # output of the audited program
UNPACKED_BYTES = Limit("EPSILOMETER_UNPACKED_BYTES", 1 << 30)  # unpacked size of a compressed file
ENDPOINT_SECONDS = Limit("EPSILOMETER_ENDPOINT_SECONDS", 60)  # seconds for a request, from the first byte to the last
ENDPOINT_BYTES = Limit("EPSILOMETER_ENDPOINT_BYTES", 1 << 24)  # size of an answer
PROCESSES = Limit("EPSILOMETER_PROCESSES", 4096)  # processes and threads that a stage or command may add
_RATIO = 10  # allowed ratio of sizes; a text compresses to a fifth of its size at best


def unpacked(path: Path) -> int:
    """Return the largest allowed unpacked size of a file: `UNPACKED_BYTES`, or ten times the file's size if larger."""
    return max(UNPACKED_BYTES.value, _RATIO * path.stat().st_size)


def too_large(path: Path) -> UserError:
    """Return the error for a compressed file that unpacks to more than `unpacked` bytes."""
    return UserError(
        f"{path} unpacks to more than {unpacked(path)} bytes, over {_RATIO} times its size; {UNPACKED_BYTES.remedy}",
        "EPS-C047",
    )
