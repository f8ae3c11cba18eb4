"""JSON written by others, whose every fault is a ValueError that does not quote it, and our own JSON.

Our own may hold infinite numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def load(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for nesting and numbers beyond what Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("it contains a number of thousands of digits") from None


def no_text(value: Any) -> str | None:
    """Return, in words, the first character of a JSON value that no text file can hold; None if there is none."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, str):
            if not part.isascii() and _SURROGATE.search(part):
                return "half a character (a lone surrogate)"
            if "\0" in part:
                return "a NUL"
        elif isinstance(part, list):
            left += part
        elif isinstance(part, Mapping):
            left += [*part.keys(), *part.values()]
    return None


def for_json(value: Any) -> Any:
    """Return a value that JSON can hold, which has no infinity: "Infinity" and "-Infinity", and null for NaN."""
    if isinstance(value, Mapping):
        return {key: for_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [for_json(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
