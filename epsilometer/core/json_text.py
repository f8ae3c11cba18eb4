"""JSON that somebody else wrote: whatever is wrong with it is a ValueError, which says so without quoting it."""

from __future__ import annotations

import json
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
