"""Checks that a value is a number, a whole number or a list, before any work begins."""

from __future__ import annotations

import re
from numbers import Integral, Real

from epsilometer.core.errors import UserError

_NUMBER = re.compile(r"[-+]?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?|inf|nan)", re.IGNORECASE)


def is_plain(text: str) -> bool:
    """Return True if every program reads this notation as the same number.

    YAML reads 010 as 8, 1:30 as 90 and 1_000 as 1000, and Python accepts digits of other scripts.
    """
    return _NUMBER.fullmatch(text) is not None


def number(value: object) -> float:
    """Return a number that a user wrote, on the command line or in a parameter file.

    Raises ValueError for a boolean, and for text that fails `is_plain`.
    """
    written = value.strip() if isinstance(value, str) else value
    if isinstance(written, bool) or not (is_plain(written) if isinstance(written, str) else isinstance(written, Real)):
        raise ValueError(f"must be a number in plain digits, such as 10 or 0.5, got {value!r}")
    return float(written)  # type: ignore[arg-type]


def check_number(value: object, name: str) -> None:
    """Raise UserError with this name unless the value is a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserError(f"{name} must be a number, got {value!r}", "EPS-C066")


def check_whole(value: object, name: str) -> None:
    """Raise UserError with this name unless the value is a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UserError(f"{name} must be a whole number, got {value!r}", "EPS-C067")


def check_list(value: object, name: str) -> None:
    """Raise UserError with this name unless the value is a list. A single number or text is not a list."""
    if isinstance(value, (str, Real)) or not hasattr(value, "__len__"):
        raise UserError(f"{name} must be a list of numbers, got {value!r}; write [{value}]", "EPS-C068")
