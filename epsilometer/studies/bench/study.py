"""What the core finds of this study (`core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epsilometer.core.study import Study


class Bench(Study):
    """One command."""

    def commands(self) -> Sequence[Callable[..., None]]:
        """`bench`."""
        from epsilometer.studies.bench.commands import bench

        return [bench]


STUDY = Bench()
