"""JSON that somebody else wrote: whatever is wrong with it is a ValueError, which says so without quoting it.

And what we write, which may be infinite.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def load(text: str | bytes) -> Any:
    """What a JSON text means. Raises ValueError, for nesting and numbers beyond what Python reads as well."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number in it has thousands of digits") from None


def no_text(value: Any) -> str | None:
    """Return, in words, the first part of a JSON value that no file can hold as text; None where all is text."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str):
            if any("\ud800" <= character <= "\udfff" for character in part):
                return "half a character (a lone surrogate)"
            if "\0" in part:
                return "a NUL"
    return None


def for_json(value: Any) -> Any:
    """Returns a value as JSON can hold it, which has no infinity: "Infinity" and "-Infinity", and null for NaN."""
    if isinstance(value, Mapping):
        return {key: for_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [for_json(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
