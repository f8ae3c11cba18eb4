"""Reading of other programs' JSON, and values for our own JSON. Errors never quote another program's JSON.

Our own values may be infinite or NaN, which JSON cannot express, so `for_json` replaces them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def load(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid, nested too deeply, or has a huge number."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("it contains a number of thousands of digits") from None


def no_text(value: Any) -> str | None:
    """Describe a character of a JSON value that no text file can contain; None if there is none."""
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
    """Return the value with each infinity as "Infinity" or "-Infinity" and each NaN as null, which JSON can hold."""
    if isinstance(value, Mapping):
        return {key: for_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [for_json(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
