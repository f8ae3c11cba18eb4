"""`epsilometer calibrate` as a Prefect flow: the nominal epsilon of a target loss, as a table.

Reads the data sets as the last audit prepared them, and writes nothing but its artifact, and the counts
that a stopped search goes on with (data/calibrating).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_table_artifact

from flows.artifacts import prefixed
from tasks.output import environment, show


@flow(persist_result=False)
def calibrate(
    folder: str = ".",
    target: float = 1.0,
    mechanisms: list[str] | None = None,
    datasets: list[str] | None = None,
    attack: str = "strongest",
) -> None:
    """Find the nominal epsilon at which each mechanism's loss meets a target (nats), in the audit of a folder."""
    command = [
        sys.executable,
        "-m",
        "epsilometer.cli",
        "calibrate",
        "--json",
        f"--target={target}",
        f"--attack={attack}",
    ]
    command += [f"--mechanism={name}" for name in mechanisms or []] + [f"--dataset={name}" for name in datasets or []]
    with tempfile.TemporaryFile() as results:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdout=results,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment(),
        ) as process:
            assert process.stderr is not None
            try:
                last = show(process.stderr, "calibrate")
            except BaseException:  # the run is cancelled
                process.terminate()
                raise
        if process.returncode:
            raise RuntimeError("\n".join(["epsilometer calibrate failed; its last lines:", *last]))
        results.seek(0)
        table = json.load(results)
    create_table_artifact(
        key=prefixed(Path(folder), "epsilon-at-target"),
        table=table,
        description=f"The nominal epsilon at which the loss is {target:g} (nats), and the interval that it lies in.",
    )
