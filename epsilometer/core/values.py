"""Whether a value is a number, a whole number or a list: what is none is refused before any work begins."""

from __future__ import annotations

from numbers import Integral, Real

from epsilometer.core.errors import UserError


def check_number(value: object, name: str) -> None:
    """Raises UserError for what is no number; name: of the value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserError(f"{name} must be a number, got {value!r}")


def check_whole(value: object, name: str) -> None:
    """Raises UserError for what is no whole number; name: of the value."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UserError(f"{name} must be a whole number, got {value!r}")


def check_list(value: object, name: str) -> None:
    """Raises UserError for what is no list of numbers, such as one number; name: of the value."""
    if isinstance(value, (str, Real)) or not hasattr(value, "__len__"):
        raise UserError(f"{name} must be a list of numbers, got {value!r}; write [{value}]")
