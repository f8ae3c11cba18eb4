"""A finished audit as the sections of its report read it: its parameters, and each file of its folder once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import overall
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT, EXACT_CURVES, REWRITES, TRIALS
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.tables import Schema
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.params import Params
from epsilometer.project.paths import curves_path, exact_path, rewrites_path


@dataclass(frozen=True)
class Results:
    """The results in the current folder. held: what has been read, by path."""

    params: Params
    held: dict[str, Any] = field(default_factory=dict)

    def table(self, path: Path | str, schema: Schema) -> pl.DataFrame:
        """The table in a file; raises UserError where there is none, or a column is missing."""
        if str(path) not in self.held:
            self.held[str(path)] = tables.read(path, schema)
        table: pl.DataFrame = self.held[str(path)]
        return table

    def tables(self, paths: Iterable[Path | str], schema: Schema) -> pl.DataFrame:
        """The tables in these files as one; without rows where there are no files."""
        return pl.concat([pl.DataFrame(schema=dict(schema)), *(self.table(path, schema) for path in paths)])

    @property
    def exact(self) -> pl.DataFrame:
        """Schema `EXACT`, of all cells; without rows where no mechanism has a law."""
        return self._of_cells(exact_path, EXACT)

    @property
    def exact_curves(self) -> pl.DataFrame:
        """Schema `EXACT_CURVES`, of all cells; without rows where no mechanism has a law."""
        return self._of_cells(curves_path, EXACT_CURVES)

    def _of_cells(self, path: Callable[[str], Path], schema: Schema) -> pl.DataFrame:
        """The tables of all cells as one; an audit from before there were such tables has none."""
        paths = [path(cell) for cell in self.params.cells]
        return self.tables([one for one in paths if str(one) in self.held or one.is_file()], schema)

    def record(self, path: Path | str) -> Any:
        """What a JSON file holds."""
        if str(path) not in self.held:
            self.held[str(path)] = json.loads(Path(path).read_text(encoding="utf-8"))
        return self.held[str(path)]

    @property
    def estimates(self) -> pl.DataFrame:
        """Schema `ESTIMATES`, sorted; `point` and `upper` may be infinite. Raises UserError for no rows."""
        estimates = self.table("data/estimates.parquet", ESTIMATES)
        if estimates.is_empty():
            raise UserError(
                "there are no estimates to report; name at least one mechanism and one attack in params.yaml"
            )
        return estimates.sort("dataset", "attack", "mechanism", "epsilon")

    @property
    def verdicts(self) -> pl.DataFrame:
        """One verdict a claim, as every section shows it (`verdicts.overall`)."""
        return overall(self.estimates, self.table("data/claims.parquet", CLAIMS), self.exact)

    def trials(self, dataset: str) -> Trials:
        """The trials of a data set."""
        return Trials.of(self.table(f"data/trials/{dataset}.parquet", TRIALS))

    def audited(self, dataset: str) -> pl.DataFrame:
        """The prepared texts of the audited split, in the order in which candidates number them."""
        split = self.params.datasets[dataset].use
        return self.table(f"data/prepared/{dataset}.parquet", PREPARED).filter(split=split)

    @property
    def public(self) -> list[str]:
        """The data sets whose texts may be shown."""
        return [name for name, dataset in self.params.datasets.items() if dataset.public]

    def texts(self, dataset: str) -> list[str]:
        """The texts that candidates number; raises UserError unless the data set is public."""
        self._check_public(dataset)
        return self.audited(dataset)["text"].to_list()

    def rewrites(self, dataset: str, mechanism: str, epsilon: float | None) -> dict[int, str]:
        """The rewrite of each trial; raises UserError unless the data set is public."""
        self._check_public(dataset)
        table = self.table(rewrites_path(f"{dataset}-{mechanism}", epsilon), REWRITES)
        return dict(table.sort("trial").select("trial", "text").iter_rows())

    def shown(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table with texts, unchanged; raises UserError unless all its data sets are public."""
        for dataset in table["dataset"].unique().sort():
            self._check_public(dataset)
        return table

    def _check_public(self, dataset: str) -> None:
        if dataset not in self.public:
            raise UserError(
                f"texts of data set {dataset!r} must not be shown: it is not public; set public: true or leave them out"
            )
