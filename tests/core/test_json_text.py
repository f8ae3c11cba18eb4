"""JSON output: infinities are strings, and null means not computed. Everything is deterministic."""

from __future__ import annotations

import json
import math

from epsilometer.core.json_text import for_json


def test_an_infinity_is_not_what_was_not_computed() -> None:
    """To a reader of JavaScript null is less than 1."""
    rows = [{"worst": math.inf, "of": {"slack": -math.inf}}, {"worst": None, "each": [1.5, math.inf, math.nan]}]
    written = json.loads(json.dumps(for_json(rows), allow_nan=False))
    assert written == [
        {"worst": "Infinity", "of": {"slack": "-Infinity"}}, {"worst": None, "each": [1.5, "Infinity", None]},
    ]  # fmt: skip
    assert [float(written[0]["worst"]), float(written[0]["of"]["slack"])] == [math.inf, -math.inf]
