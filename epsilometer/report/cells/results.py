"""The results of cells, for the sections of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epsilometer.auditing.claims.verdicts import overall
from epsilometer.auditing.schemas import CLAIMS, EXACT, EXACT_CURVES, OUTPUTS, REWRITES, TRIALS
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.cells.params import TextsParams
from epsilometer.cells.tables import curves_path, exact_path, rewrites_path
from epsilometer.core.tables import Schema
from epsilometer.project import plain_words
from epsilometer.report.results import Results
from epsilometer.report.rows import unread


@dataclass(frozen=True)
class TextResults(Results[TextsParams]):
    """The results of the cells in the current folder."""

    @property
    def exact(self) -> pl.DataFrame:
        """The exact losses of all cells (schema `EXACT`); without rows if no mechanism has a law."""
        return self._of_cells(exact_path, EXACT)

    @property
    def exact_curves(self) -> pl.DataFrame:
        """The delta of exact losses of all cells (schema `EXACT_CURVES`); without rows if no mechanism has a law."""
        return self._of_cells(curves_path, EXACT_CURVES)

    def _of_cells(self, path: Callable[[str], Path], schema: Schema) -> pl.DataFrame:
        """Return one table with the rows of all cells. Audits of earlier versions may lack files of some cells."""
        paths = [path(cell) for cell in self.params.cells]
        return self.tables(filter(self.has, paths), schema)

    @property
    def verdicts(self) -> pl.DataFrame:
        """The verdict on each claim, which every section shows (`verdicts.overall`)."""
        return overall(self.estimates, self.table("data/claims.parquet", CLAIMS), self.exact)

    @property
    def unread(self) -> dict[tuple[str, str], list[str]]:
        """Large shares of out-of-vocabulary words and truncated texts, by data set and mechanism; without controls."""
        controls = self.estimates.filter("control")["mechanism"].unique().to_list()
        outputs = self.table("data/outputs.parquet", OUTPUTS)
        return unread(outputs.filter(~pl.col("mechanism").is_in(controls)))

    def means(self, mechanism: str) -> str:
        """Return a mechanism's description in plain words; empty without one, and in audits by earlier versions."""
        said = self.record(plain_words.FILE)["cell"] if self.has(plain_words.FILE) else {}
        words: str = said.get(mechanism) or ""
        return words

    def trials(self, dataset: str) -> Trials:
        """Return the trials of a data set."""
        return Trials.of(self.table(f"data/trials/{dataset}.parquet", TRIALS))

    def rewrites(self, dataset: str, mechanism: str, epsilon: float | None) -> dict[int, str]:
        """Return the rewrite of each trial; raises UserError unless examples of the data set may be shown."""
        self._check_shown(dataset, self.examples)
        table = self.table(rewrites_path(f"{dataset}-{mechanism}", epsilon), REWRITES)
        return dict(table.sort("trial").select("trial", "text").iter_rows())
