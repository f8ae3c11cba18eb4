"""The study of deployed services, as the core loads it (`core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epsilometer.core.study import Study


class Deployed(Study):
    """One command, and its function."""

    names = (
        "epsilometer.studies.deployed.probing:Pace",
        "epsilometer.studies.deployed.probing:probe_failures",
    )

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """`probe`."""
        from epsilometer.studies.deployed.commands import probe

        return {"probe": probe}


STUDY = Deployed()
