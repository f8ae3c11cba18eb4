"""Bounds on what programs, endpoints and files may take: seconds, bytes, nodes.

Each ends what could otherwise go on for ever or fill the memory. None can change a result, so they stand in the
environment and not in params.yaml.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from epsilometer.core.errors import UserError


@dataclass(frozen=True)
class Limit:
    """A whole number > 0, by default `default`, else what the environment gives for `variable`."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The bound. Raises UserError for a variable that is no whole number > 0."""
        text = os.environ.get(self.variable, str(self.default))
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
            raise UserError(
                f"{self.variable} must be a whole number > 0, got {text[:40]!r}; for instance {self.default}"
            )
        return int(text)

    @property
    def remedy(self) -> str:
        """How to raise it, for the end of a message."""
        return f"if that is meant, set {self.variable} (now {self.value}) to more"


EXIT_SECONDS = Limit("EPSILOMETER_EXIT_SECONDS", 30)  # from the end of the work, or Ctrl-C, to that of the process
YAML_NODES = Limit("EPSILOMETER_YAML_NODES", 100_000)  # values or lines that aliases repeat in a parameter file
COMMAND_SECONDS = Limit("EPSILOMETER_COMMAND_SECONDS", 3600)  # for one batch of an audited program
COMMAND_BYTES = Limit("EPSILOMETER_COMMAND_BYTES", 1 << 28)  # that it writes
UNPACKED_BYTES = Limit("EPSILOMETER_UNPACKED_BYTES", 1 << 30)  # that a compressed file becomes
ENDPOINT_SECONDS = Limit("EPSILOMETER_ENDPOINT_SECONDS", 60)  # for a request, from the first byte to the last
ENDPOINT_BYTES = Limit("EPSILOMETER_ENDPOINT_BYTES", 1 << 24)  # of an answer
PROCESSES = Limit("EPSILOMETER_PROCESSES", 4096)  # and threads that a stage or a command adds to its user's
_RATIO = 10  # texts compress to a fifth of their size at best


def unpacked(path: Path) -> int:
    """The most bytes that a compressed file may become: `UNPACKED_BYTES`, or ten times its size where that is more."""
    return max(UNPACKED_BYTES.value, _RATIO * path.stat().st_size)


def too_large(path: Path) -> UserError:
    """The error for a compressed file that becomes more than that."""
    return UserError(
        f"{path} becomes more than {unpacked(path)} bytes when it is unpacked, over {_RATIO} times its size; "
        f"{UNPACKED_BYTES.remedy}"
    )
