"""The origin of a page: its date, profile and commit, the run that made it and its times, and DVC's record of inputs.

These facts may differ between equal results, so files that DVC tracks do not contain them. They are inserted when the
page is written. The table of times is not on the page, but in results/.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from epsilometer.core import yaml_text
from epsilometer.project.commit import commit
from epsilometer.report.environment import show
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.runtime.batches import halved

RUN = "EPSILOMETER_FLOW_RUN"  # environment variable: JSON with the name, id and url of a stage's flow run
_NO_COMMIT = "without a git commit"
_SINGLE = "rewrite"  # only this stage has a row for each entry, because an entry's time is the time of a mechanism


def facts(folder: Path) -> dict[str, str]:
    """Return the current date, profile and commit of a folder, and the devices that computed its audit."""
    at = commit(folder)
    edited = ", with uncommitted changes" if at.edited else ""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "profile": profile(folder),
        "commit": f"{at.id}{edited}" if at.id else _NO_COMMIT,
        "device": device(folder),
        "brief": f"commit {at.id[:10]}{edited}" if at.id else _NO_COMMIT,
    }


def header(facts: Mapping[str, str]) -> Markup:
    """Return the origin in one line, at the top of the page."""
    return Markup("{date} · profile {profile} · {brief} · ").format(**facts)


def section(facts: Mapping[str, str], run: Mapping[str, str | None] | None, lock: Path) -> Markup:
    """Return the section with all facts on the origin.

    run: name, id and url of the flow run; by default from the environment variable RUN. lock: the folder's dvc.lock.
    """
    run = run or json.loads(os.environ.get(RUN, "{}"))
    whole = {name: facts[name] for name in ("date", "profile", "commit")}
    whole |= {"networks computed on": facts["device"], "made by": _flow(run) if run else "dvc repro"}
    files = [{"path": path, "MD5": value} for path, value in hashes(lock).items()]
    beside = f"Made from {len(files)} files and folders, with their hashes in dvc.lock"
    tables = (Table("", "", [whole]), Table(beside, "", files, folded=True))
    return show(Section("origin", "Origin", "Where this page comes from", blocks=tables))


def _flow(run: Mapping[str, str | None]) -> Markup:
    name = Markup("{}").format(run["name"])
    if (url := run["url"]) and url.startswith(("http://", "https://")):
        name = Markup('<a href="{}">{}</a>').format(url, name)
    return Markup("Prefect flow run {}, {}").format(name, run["id"])


def device(folder: Path) -> str:
    """Return the devices in the records of a folder's code, and the stages where their memory ran out."""
    records = (json.loads(path.read_bytes()) for path in sorted((folder / "data" / "code").rglob("*.json")))
    named = {", ".join(record["device"].values()) for record in records if "device" in record}
    ran_out = [f"{stage} (out of memory, rows halved {times} times)" for stage, times in halved(folder).items()]
    return "; ".join(sorted(named) + ran_out) or "not recorded"


def profile(folder: Path) -> str:
    """Return the profile of a folder: NAME for runs/NAME, otherwise `default`."""
    place = folder.resolve()
    return place.name if place.parent.name == "runs" else "default"


def hashes(lock: Path) -> dict[str, str]:
    """Return the hashes in dvc.lock of all outputs of stages other than the report, by path."""
    stages: dict[str, Any] = yaml_text.load(lock.read_text(encoding="utf-8"))["stages"] if lock.is_file() else {}
    outs = [out for name, stage in stages.items() if name != "report" for out in stage.get("outs", [])]
    return {out["path"]: out[out["hash"]] for out in sorted(outs, key=lambda out: out["path"])}


def times(seconds: Mapping[str, float]) -> Table:
    """Return a row per stage, the longest first, and for `rewrite` a row per entry.

    seconds: the processor time of each stage that ran in the folder.
    """
    of_stage = defaultdict[str, list[float]](list)
    for stage, time in seconds.items():
        name, _, entry = stage.partition("@")
        of_stage[f"{name} {entry}" if name == _SINGLE else name].append(time)
    rows = [
        {"stage": stage, "runs": f"{len(spent):,}", "processor, s": f"{sum(spent):,.0f}"}
        for stage, spent in sorted(of_stage.items(), key=lambda item: -sum(item[1]))
    ]
    return Table("What the stages took", "Processor time of each process, imports included.", rows)
