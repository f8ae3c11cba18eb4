"""A Prefect server for tests with a separate database, to which the flows of this process report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.support.waiting import LAST_RESORT


@contextmanager
def prefect_server() -> Iterator[None]:
    """Run Prefect's test harness with a server started in the project's way, which waits until the server runs."""
    from prefect.server.api.server import SubprocessASGIServer  # loads the whole server
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    from epsilometer.pipeline.flows import temporary

    ending = []

    def start(server: SubprocessASGIServer, timeout: int | None = None) -> None:
        if not server.running:
            server.port, server.server_process, ends = temporary.serve()
            server.running = True
            ending.append(ends)

    patient = temporary_settings({PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: int(LAST_RESORT)})
    with patient, patch.object(SubprocessASGIServer, "start", start), prefect_test_harness():
        yield
    for process in ending:
        process.kill()
        process.communicate()
