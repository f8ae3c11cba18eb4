"""The study of anonymity, registered with the core through `STUDY` (see `core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer.core.study import Study

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.core.mechanism import Mechanism
    from epsilometer.project.sections import Cell
    from epsilometer.reaudit.drift import Measured, Row
    from epsilometer.studies.anonymity.params import AnonymityParams


class Anonymity(Study):
    """The study behind the sections `downstream` and `anonymity` of params.yaml."""

    sections = ("epsilometer.studies.anonymity.report.learnt", "epsilometer.studies.anonymity.report.section")

    def params(self) -> type[AnonymityParams]:
        """Return the class of the study's settings: classifiers, auxiliaries, rewriters, cells and attackers."""
        from epsilometer.studies.anonymity.params import AnonymityParams

        return AnonymityParams

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Return the command `anonymize`."""
        from epsilometer.studies.anonymity.commands import anonymize

        return {"anonymize": anonymize}

    def check(self, params: AnonymityParams) -> None:
        """Build mechanisms and trainings of rewriters, and read word relations. Raises UserError if one is invalid."""
        from epsilometer.studies.anonymity.checking import check

        check(params)

    def check_texts(self, params: AnonymityParams, dataset: str, table: pl.DataFrame) -> None:
        """Raise UserError if classifiers cannot use the parts or labels of a data set."""
        from epsilometer.studies.anonymity.checking import check_texts

        check_texts(params, dataset, table)

    def check_mechanism(self, params: AnonymityParams, cell: Cell, mechanism: Mechanism, place: str) -> None:
        """Raise UserError if a mechanism's settings do not fit its auxiliaries."""
        from epsilometer.studies.anonymity.checking import check_auxiliaries

        check_auxiliaries(params, cell, mechanism, place)

    def models(self, params: AnonymityParams) -> Iterator[str]:
        """Yield the models to fine-tune, by id or pin."""
        from epsilometer.pipeline.downloads import pinned

        for place, training in params.fine_tunings():
            path = params.path(training.model)
            yield from pinned(path, place) if Path(path).exists() else [training.model]

    def components(self, kind: str, params: AnonymityParams, entry: Any) -> Iterator[Path]:
        """Yield the files that count as code of an entry: its word relations, or the mechanism of its round trip."""
        if kind == "relations" and entry.relations:
            yield Path(params.path(entry.relations))
        elif kind == "round trip":
            yield params.code(entry.round_trip)

    def accepted(self, params: AnonymityParams) -> Iterator[str]:
        """Return the stages of the cells that rewrite test texts; their results can be a baseline."""
        return (f"anonymity@{name}" for name, cell in params.anonymity.items() if cell.part == "test")

    def measure(self, params: AnonymityParams, folder: Path) -> dict[Row, Measured]:
        """Return the attackers' results on the cells that rewrite test texts."""
        from epsilometer.studies.anonymity.measured import measure

        return measure(params, folder)

    def searches(self) -> Mapping[str, Callable[..., Iterable[dict[str, Any]]]]:
        """Return the search for the budget at which the attribute loss, the largest over attributes, meets a target."""
        from epsilometer.studies.anonymity.calibrating import calibrate

        return {"attribute": calibrate}


STUDY = Anonymity()
