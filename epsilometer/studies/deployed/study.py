"""The study of deployed services, registered with the core through `STUDY` (see `core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epsilometer.core.study import Study


class Deployed(Study):
    """The study of deployed services. It adds a command, and its function to the package `epsilometer`."""

    names = (
        "epsilometer.studies.deployed.probing:Pace",
        "epsilometer.studies.deployed.probing:probe_failures",
    )

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Return the command `probe`."""
        from epsilometer.studies.deployed.commands import probe

        return {"probe": probe}


STUDY = Deployed()
