"""The frozen results, in sections that are computed separately."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.goldens.arithmetic import settings
from tests.goldens.values import flat
from tests.support.places import ROOT

FROZEN = Path(__file__).parent / "frozen"
SECTIONS = (  # a module and its section, the slowest first
    *("guesses_tem", "guesses_project", "studies_texts", "studies_anonymity"),
    *("studies_leaderboard", "studies_training", "commands_audit", "commands_gate", "commands_other"),
    *("guesses_coin", "guesses_plain", "commands_bench", "locks_audit", "locks_leaderboard"),
)
_SHOWN = 20  # lines of an error


@dataclass(frozen=True)
class Section:
    """Results of a section as JSON gives them back. arithmetic: how the machine rounds that computed them."""

    results: Any
    arithmetic: str | None
    seconds: float = 0.0


class Failed(Exception):
    """The last lines of a section that ended in an error."""


def read(name: str) -> Section | None:
    """Return the frozen results of a section; None without a file, and for one that a merge has left in conflict."""
    try:
        content = json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))
        return Section(content["results"], content["arithmetic"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def freeze(name: str, section: Section) -> None:
    """Replace the frozen results of a section."""
    FROZEN.mkdir(exist_ok=True)
    content = {"arithmetic": section.arithmetic, "results": section.results}
    partial = FROZEN / f".{name}.partial"
    partial.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    partial.replace(FROZEN / f"{name}.json")


def compute(name: str, folder: Path) -> Section:
    """Return the results of a section, computed in a process of its own. Raises Failed for one that ends early."""
    file, log = folder / f"{name}.json", folder / f"{name}.log"
    environment = os.environ | settings() | {"HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1", "PYTHONPATH": str(ROOT)}
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "tests.goldens.section", name, file],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if done.returncode or not file.is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:]
        raise Failed("\n".join([f"exit code {done.returncode}", *lines]))
    return Section(**json.loads(file.read_text(encoding="utf-8")))


def first_difference(before: Any, now: Any) -> str | None:
    """Return where results differ first, and both values there; None where they agree."""
    old, new = flat(before), flat(now)
    for path in {**old, **new}:
        if (was := old.get(path, "absent")) != (is_now := new.get(path, "absent")):
            return f"{' > '.join(path)}\n  frozen: {was}\n  now:    {is_now}"
    return None
