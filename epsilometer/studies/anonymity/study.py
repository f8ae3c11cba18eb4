"""The study of anonymity, as the core loads it (`core.study`)."""

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
    """Sections `downstream` and `anonymity` of params.yaml, and what they read."""

    sections = ("epsilometer.studies.anonymity.report.learnt", "epsilometer.studies.anonymity.report.section")

    def params(self) -> type[AnonymityParams]:
        """Classifiers, auxiliaries, rewriters, cells and attackers."""
        from epsilometer.studies.anonymity.params import AnonymityParams

        return AnonymityParams

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """`anonymize`."""
        from epsilometer.studies.anonymity.commands import anonymize

        return {"anonymize": anonymize}

    def check(self, params: AnonymityParams) -> None:
        """Build the mechanism of each cell, and what trains rewriters; read word relations."""
        from epsilometer.studies.anonymity.checking import check

        check(params)

    def check_texts(self, params: AnonymityParams, dataset: str, table: pl.DataFrame) -> None:
        """Refuse parts or labels that classifiers cannot use."""
        from epsilometer.studies.anonymity.checking import check_texts

        check_texts(params, dataset, table)

    def check_mechanism(self, params: AnonymityParams, cell: Cell, mechanism: Mechanism, place: str) -> None:
        """Refuse settings that do not fit the auxiliaries of a mechanism."""
        from epsilometer.studies.anonymity.checking import check_auxiliaries

        check_auxiliaries(params, cell, mechanism, place)

    def models(self, params: AnonymityParams) -> Iterator[str]:
        """Yield the models that are fine-tuned."""
        from epsilometer.pipeline.downloads import pinned

        for place, training in params.fine_tunings():
            path = params.path(training.model)
            yield from pinned(path, place) if Path(path).exists() else [training.model]

    def components(self, kind: str, params: AnonymityParams, entry: Any) -> Iterator[Path]:
        """Files of word relations, and the mechanism of a round trip."""
        if kind == "relations" and entry.relations:
            yield Path(params.path(entry.relations))
        elif kind == "round trip":
            yield params.code(entry.round_trip)

    def accepted(self, params: AnonymityParams) -> Iterator[str]:
        """Return the cells whose attackers read test texts."""
        return (f"anonymity@{name}" for name, cell in params.anonymity.items() if cell.part == "test")

    def measure(self, params: AnonymityParams, folder: Path) -> dict[Row, Measured]:
        """Return the attackers of these cells."""
        from epsilometer.studies.anonymity.measured import measure

        return measure(params, folder)

    def searches(self) -> Mapping[str, Callable[..., Iterable[dict[str, Any]]]]:
        """Return the loss of the attribute that loses most."""
        from epsilometer.studies.anonymity.calibrating import calibrate

        return {"attribute": calibrate}


STUDY = Anonymity()
