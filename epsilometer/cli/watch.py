"""`epsilometer watch`: a re-audit whenever a source of the losses changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from epsilometer.core.errors import printable
from epsilometer.runtime.progress import say


def watch(
    every: Annotated[float, typer.Option(min=1, help="Seconds between checks.")] = 60,
    once: Annotated[bool, typer.Option("--once", help="Check once and end, for cron.")] = False,
) -> None:
    """Start a re-audit whenever its sources change.

    The sources are mechanisms, packages, pins of models and data sets. The command runs until it is interrupted.

    The sources are compared with the records of the last re-audit, or of the baseline. Once a day the command reports
    newer versions on the hub and at the package index, but never adopts them. If `make ui` is running, the re-audit
    runs on its server.
    """
    from epsilometer.pipeline import watching
    from epsilometer.pipeline.flows.trigger import start

    def tell(lines: str) -> None:
        say("\n".join(map(printable, lines.splitlines())))

    def begin(changed: Sequence[str]) -> None:
        tell(start(changed))

    if once:
        with watching.alone():
            looks = watching.Watch(tell, begin)
            if not looks.look():
                say("no re-audit was started")
            looks.ask()
        return
    watching.watch(tell, begin, every)
