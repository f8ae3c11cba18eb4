"""The study of estimators, as the core loads it (`core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epsilometer.core.study import Study


class Bench(Study):
    """One command."""

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """`check estimators`."""
        from epsilometer.studies.bench.commands import estimators

        return {"check estimators": estimators}


STUDY = Bench()
