"""The frozen results in parts that are computed one by one."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.goldens.values import flat

FROZEN = Path(__file__).parent / "frozen"
SECTIONS = (  # a module and what it computes, the longest first
    *("guesses_tem", "guesses_project", "studies_texts"),
    *("studies_leaderboard", "studies_training", "commands_audit", "commands_gate", "commands_other"),
    *("guesses_coin", "guesses_plain", "locks_audit", "locks_leaderboard"),
)


def read(section: str) -> Any:
    """Return the frozen results of a section; None before the first."""
    file = FROZEN / f"{section}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def computed(section: str) -> Any:
    """Return the results of a section as JSON gives them back."""
    module, _, of = section.partition("_")
    return json.loads(json.dumps(import_module(f"tests.goldens.{module}").results(of)))


def first_difference(before: Any, now: Any) -> str | None:
    """Return where results differ first, and both values there; None where they agree."""
    old, new = flat(before), flat(now)
    for path in {**old, **new}:
        if (was := old.get(path, "absent")) != (is_now := new.get(path, "absent")):
            return f"{' > '.join(path)}\n  frozen: {was}\n  now:    {is_now}"
    return None
