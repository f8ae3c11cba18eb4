"""`epsilometer calibrate` as a Prefect flow: the nominal epsilon of a target loss, as a table.

Reads the data sets as the last audit prepared them. Writes only its artifact, and the counts from which a stopped
search continues (data/calibrating).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_table_artifact

from epsilometer.cells.calibrating.losses import STANDARD_SEARCH, Search
from epsilometer.pipeline.flows.artifacts import prefixed
from epsilometer.pipeline.flows.output import follow, stopped_with_this


@flow(persist_result=False)
def calibrate(
    folder: str = ".",
    target: float = 1.0,
    search: Search = STANDARD_SEARCH,
    mechanisms: list[str] | None = None,
    datasets: list[str] | None = None,
) -> None:
    """Find the nominal epsilon at which each mechanism's loss meets a target (nats), in the audit of a folder.

    search: as the options of `epsilometer calibrate`. mechanisms, datasets: their names; by default all.
    """
    request = {"target": target, **asdict(search), "mechanisms": mechanisms or [], "datasets": datasets or []}
    with tempfile.TemporaryDirectory() as results:
        out = Path(results, "rows.json")
        command = ["-m", "epsilometer.pipeline.guard.entry", "calibrate", str(out), json.dumps(request)]
        with stopped_with_this():
            if failure := follow(command, "calibrate", folder):
                raise RuntimeError(failure)
        table = json.loads(out.read_text(encoding="utf-8"))
    create_table_artifact(
        key=prefixed(Path(folder), "epsilon-at-target"),
        table=table,
        description=f"The nominal epsilon at which the loss is {target:g} nats, and its interval.",
    )
