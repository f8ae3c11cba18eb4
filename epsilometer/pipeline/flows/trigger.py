"""Start a re-audit because a source has changed: at Prefect's server if it is up, else in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows import PROJECT
from epsilometer.pipeline.flows.connection import server

CHANGED = "epsilometer.source.changed"  # this event starts the deployment `reaudit` of prefect.yaml


def start(changed: Sequence[str]) -> str:
    """Start a re-audit of the audit in the current folder. Returns a sentence about its start or its result.

    With a server (`make ui`), an event starts the deployment `reaudit` on the server's worker. Without a server, the
    re-audit runs in a child process, and this call waits for it. Raises UserError if the server does not answer.
    """
    if PREFECT_API_URL.value():
        server()
        folder = os.path.relpath(Path.cwd(), PROJECT)
        message = "\n".join(["changed since the last re-audit:", *changed])
        resource = {"prefect.resource.id": f"epsilometer.audit.{folder}"}
        sent = emit_event(CHANGED, resource=resource, payload={"message": message, "folder": folder})
        if sent is None:
            raise UserError("Prefect did not accept the event; check PREFECT_API_URL", "EPS-P072")
        return f"the server at {PREFECT_API_URL.value()} starts the deployment reaudit"
    command = [sys.executable, "-m", "epsilometer.pipeline.flows.reaudit"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise UserError(done.stderr.strip().rpartition("error: ")[2], "EPS-P077")
    return f"the re-audit {'did not pass' if done.returncode else 'passed'}:\n{done.stdout.strip()}"
