"""The results in a project's folder, for the sections of a report. Each file is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.project import paths
from epsilometer.project.params import ProjectParams

P = TypeVar("P", bound=ProjectParams)


@dataclass(frozen=True)
class Results(Generic[P]):
    """The results in the current folder. held: a cache of the files' contents, by path, which all studies share."""

    params: P
    held: dict[str, Any] = field(default_factory=dict)

    def table(self, path: Path | str, schema: Schema) -> pl.DataFrame:
        """Return the table in a file; raises UserError if it or one of its columns is missing."""
        if str(path) not in self.held:
            self.held[str(path)] = tables.read(path, schema)
        table: pl.DataFrame = self.held[str(path)]
        return table

    def has(self, path: Path | str) -> bool:
        """Return True if the file exists."""
        return str(path) in self.held or Path(path).is_file()

    def tables(self, paths: Iterable[Path | str], schema: Schema) -> pl.DataFrame:
        """Return the tables in these files as one table; without rows if there are no files."""
        return pl.concat([pl.DataFrame(schema=dict(schema)), *(self.table(path, schema) for path in paths)])

    @property
    def estimates(self) -> pl.DataFrame:
        """The sorted estimates (schema `ESTIMATES`); no rows without cells. `point` and `upper` may be infinite."""
        if not getattr(self.params, "cells", None):
            return pl.DataFrame(schema=dict(ESTIMATES))
        return self.table("data/estimates.parquet", ESTIMATES).sort("dataset", "attack", "mechanism", "epsilon")

    def record(self, path: Path | str) -> Any:
        """Return the content of a JSON file."""
        if str(path) not in self.held:
            self.held[str(path)] = json.loads(Path(path).read_text(encoding="utf-8"))
        return self.held[str(path)]

    def audited(self, dataset: str) -> pl.DataFrame:
        """Return the prepared texts of the audited split. Candidates are numbered by their rows in this table."""
        return paths.audited(self.params, dataset, self.table)

    @property
    def public(self) -> list[str]:
        """The names of data sets whose texts may be shown."""
        return [name for name, dataset in self.params.datasets.items() if dataset.public]

    @property
    def examples(self) -> list[str]:
        """The names of data sets whose examples may be shown: public, or screened (by `cells.examples.harmless`)."""
        return [name for name, dataset in self.params.datasets.items() if dataset.public or dataset.screened]

    def texts(self, dataset: str) -> list[str]:
        """Return the audited texts; raises UserError unless examples of the data set may be shown."""
        self._check_shown(dataset, self.examples)
        return self.audited(dataset)["text"].to_list()

    def shown(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return a table of texts unchanged; raises UserError unless all its data sets are public."""
        for dataset in table["dataset"].unique().sort():
            self._check_shown(dataset, self.public)
        return table

    def _check_shown(self, dataset: str, among: Sequence[str]) -> None:
        if dataset not in among:
            raise UserError(
                f"texts of data set {dataset!r} must not be shown: it is not public; set public: true or "
                "leave them out",
                "EPS-R020",
            )
