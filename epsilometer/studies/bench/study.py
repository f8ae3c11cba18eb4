"""The study of estimators, registered with the core through `STUDY` (see `core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epsilometer.core.study import Study


class Bench(Study):
    """The study of estimators, which adds one command."""

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Return the command `check estimators`."""
        from epsilometer.studies.bench.commands import estimators

        return {"check estimators": estimators}


STUDY = Bench()
