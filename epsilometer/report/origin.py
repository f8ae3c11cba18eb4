"""Where a report comes from: its date, profile and commit, the run that made it, and what DVC recorded of its inputs.

These may differ where the results are the same, so that nothing that DVC tracks holds them: the report's stage writes
the page without (BODY), and `write` puts them in on the way to the page that people open (PAGE).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import jinja2
import yaml

from epsilometer.core import tables
from epsilometer.reaudit import history
from epsilometer.report.history import put_in
from epsilometer.report.places import emptied, put

BODY = Path("data/report.html")
PAGE = Path("reports/audit.html")
RUN = "EPSILOMETER_FLOW_RUN"  # environment: JSON with the name, id and url of the flow run that a stage belongs to


def write(folder: Path = Path(), run: Mapping[str, str | None] | None = None) -> None:
    """Write the page of an audit's folder: its body, and where it comes from as of now.

    run: the flow run, as in the environment's RUN, which it stands for.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    facts = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "profile": profile(folder), "commit": commit(folder)}
    origin = environment.get_template("origin.html.j2").render(
        facts=facts, run=run or json.loads(os.environ.get(RUN, "{}")), hashes=hashes(folder / "dvc.lock")
    )
    brief = re.sub(r"^([0-9a-f]{10})[0-9a-f]+", r"commit \1", facts["commit"])
    header = f"{facts['date']} · profile {escape(facts['profile'])} · {brief} · "
    page = folder / PAGE
    text = put(put((folder / BODY).read_text(encoding="utf-8"), "header", header), "origin", origin)
    tables.write_text(text, page)
    put_in(page, history.read(folder / history.FILE))


def refresh(folder: Path = Path(), run: Mapping[str, str | None] | None = None) -> None:
    """Write the page unless it is of this body already: DVC may have taken the body out of its cache."""
    body, page = folder / BODY, folder / PAGE
    if not body.is_file():
        return
    if not page.is_file() or emptied(page.read_text(encoding="utf-8")) != body.read_text(encoding="utf-8"):
        write(folder, run)


def profile(folder: Path) -> str:
    """Which profile runs in a folder: that of runs/NAME; `default` elsewhere."""
    place = folder.resolve()
    return place.name if place.parent.name == "runs" else "default"


def commit(folder: Path) -> str:
    """The git commit of a folder, and whether anything else than what an audit itself records differs from it."""
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return "not in a git repository, or without a commit"
    own = [":(top,exclude,glob)**/dvc.lock", ":(top,exclude,glob)**/reports/**"]
    status = _git(folder, "status", "--porcelain", "--", ":(top)", *own) or ""
    changes = [line for line in status.splitlines() if not line.startswith("?? runs/")]  # copies of profiles
    return f"{head.strip()}{', with uncommitted changes' if changes else ''}"


def hashes(lock: Path) -> dict[str, str]:
    """Of all that stages other than the report made, path and hash as dvc.lock has them."""
    stages: dict[str, Any] = yaml.load(lock.read_text(encoding="utf-8"), _LOADER)["stages"] if lock.is_file() else {}
    made = [out for name, stage in stages.items() if name != "report" for out in stage.get("outs", [])]
    return {out["path"]: out[out["hash"]] for out in sorted(made, key=lambda out: out["path"])}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where it is built in


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, None where it fails or is not there."""
    try:
        command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
