"""The leaderboard's rows as the tables show them: the cells that have run, in tiers within a class of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LAW
from epsilometer.core.tables import Schema
from epsilometer.project.origin import Origin, read
from epsilometer.report.results import Results
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.params import LeaderboardCell, LeaderboardParams
from epsilometer.studies.leaderboard.ranking import surely_above, tiers
from epsilometer.studies.leaderboard.report.repeats import with_repeats
from epsilometer.studies.leaderboard.tables import (
    ANY,
    FIGURES,
    FRONTIERS,
    PLAIN,
    ROWS,
    SIZES,
    TAIL,
    figures_path,
    parts_folder,
    rows_path,
)

_CELL: Schema = {"mechanism": pl.String, "loss": pl.Float64}
_OF_BUDGET = [*_CELL, "lengths", "budget"]
_STANDING: Schema = {"tier": pl.Int64, "above": pl.List(pl.String), "teaches_more": pl.List(pl.String)}
_CLASS = ["loss", "lengths", "claim_class"]
_OF_SHOWN = ["mechanism", "lengths", "budget", "shown_at"]
_ALLOWANCE = 1.02
_SHARED = {"plain": PLAIN, "frontiers": FRONTIERS}


@dataclass(frozen=True)
class Board:
    """A data set's part of the leaderboard.

    rows:      the rows, as `standings` returns them.
    figures:   schema `FIGURES`, with the columns `mechanism` and `loss`.
    plain:     the rows without a mechanism, schema `PLAIN`.
    frontiers: the ceilings, schema `FRONTIERS`.
    texts:     the numbers of texts that classifiers learn from, in the order of SIZES.
    absent:    mechanism and loss of each cell that has not run.
    origins:   the origin of each cell that has run, by mechanism and loss; None if it was not recorded.
    prepared:  the origin of the parts that all cells read; None if it was not recorded.
    """

    dataset: str
    rows: pl.DataFrame
    figures: pl.DataFrame
    plain: pl.DataFrame
    frontiers: pl.DataFrame
    texts: Sequence[int]
    absent: Sequence[tuple[str, float]]
    origins: Mapping[tuple[str, float], Origin | None]
    prepared: Origin | None

    def values(
        self, row: Mapping[str, Any], figure: str, learner: str | None = None, size: int = 0, *, by_law: bool = False
    ) -> list[float] | None:
        """Return the values of a row's figure, one per split; None if the row does not have the figure.

        size: the learner was trained on SIZES[size] blocks; by_law: True for learners that use the law.
        """
        of = {name: row[name] for name in _OF_BUDGET}
        some = self.figures.filter(**of, figure=figure, by_law=by_law)
        some = some.filter(pl.col("learner").eq_missing(pl.lit(learner, pl.String))).sort("texts")
        return some["values"][size].to_list() if len(some) > size else None

    def one_text(self, lengths: str) -> float:
        """Return the mean cosine of the texts and one sentence that replaces them all. lengths: the kind of sets."""
        return float(self.frontiers.filter(lengths=lengths)["one_text"][0])


def boards(results: Results[LeaderboardParams]) -> list[Board]:
    """Return a board for each data set whose parts exist, in the order of params.yaml."""
    board = results.params.leaderboard
    return [_board(results, name) for name in board.datasets if results.has(_part(name, "plain"))]


def _part(dataset: str, name: str) -> Path:
    return Path(parts_folder(dataset), f"{name}.parquet")


def _board(results: Results[LeaderboardParams], dataset: str) -> Board:
    cells = {name: cell for name, cell in results.params.leaderboard_cells.items() if cell.dataset == dataset}
    done = [name for name in cells if results.has(rows_path(name)) and results.has(figures_path(name))]
    # Attacks ignore the length of a text, so their losses are too small on sets of any length. Leave these rows out.
    unseen = (pl.col("lengths") == ANY) & (pl.col("by") == BY_ATTACKS)
    rows = results.tables([rows_path(name) for name in done], ROWS).filter(~unseen.fill_null(False))
    figures = pl.concat(
        [pl.DataFrame(schema={**FIGURES, **_CELL}), *(_of_cell(results, name, cells[name]) for name in done)]
    )
    plain, frontiers = (results.table(_part(dataset, name), schema) for name, schema in _SHARED.items())
    return Board(
        dataset,
        standings(rows, figures),
        figures,
        plain,
        frontiers=frontiers,
        texts=[size * results.params.leaderboard.datasets[dataset].texts for size in SIZES],
        absent=[(cell.mechanism, cell.loss) for name, cell in cells.items() if name not in done],
        origins={(cells[name].mechanism, cells[name].loss): read(f"leaderboard_cells@{name}") for name in done},
        prepared=read(f"leaderboard_parts@{dataset}"),
    )


def _of_cell(results: Results[LeaderboardParams], name: str, cell: LeaderboardCell) -> pl.DataFrame:
    columns = [pl.lit(cell.mechanism, pl.String).alias("mechanism"), pl.lit(cell.loss, pl.Float64).alias("loss")]
    return results.table(figures_path(name), FIGURES).with_columns(columns)


def standings(rows: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in the order of the report's table, each once, with their tiers at the second budget (`TAIL`).

    rows: schema `ROWS`; figures: schema `FIGURES`, with the columns `mechanism` and `loss`. The result has more columns
    than `ROWS`:

    - `tier`, null for a row without a tier;
    - `above`, the mechanisms whose cosine is significantly smaller;
    - `teaches_more`, the mechanisms from whose releases a classifier learns significantly less;
    - `tail_binds`, whether delta at 4 nats limits the budget;
    - `repeated`, the other target losses at which the row is the same, each with the row's tier at that loss.

    These rows have no tier:

    - controls, because at equal average loss, the control that publishes some texts verbatim is best;
    - rows whose loss is not known by law. An estimate by attacks may be too small. An upper bound by latents may be too
      large, so the mechanism may deserve a larger budget;
    - rows whose loss exceeds the target;
    - a mechanism that is alone in its class;
    - a row whose mean cosine is at most that of one sentence for all. Such a row still takes part in the tests.
    """
    marked = with_repeats(rows)
    of_shown = figures.rename({"loss": "shown_at"})
    eligible = pl.col("epsilon").is_not_null() & ~pl.col("control") & (pl.col("by") == BY_LAW)
    eligible &= pl.col("average") <= _ALLOWANCE * pl.col("loss")
    standing: list[dict[str, Any]] = []
    for of_class, group in marked.filter(eligible, budget=TAIL).group_by(_CLASS, maintain_order=True):
        if len(group) == 1:
            continue
        named = dict(zip(_CLASS, of_class, strict=True)) | {"budget": TAIL}
        shown = group.select(*_OF_SHOWN)
        here = shown.join(of_shown.filter(~pl.col("by_law")), on=_OF_SHOWN, how="left", maintain_order="left")
        taught = here.filter(figure="task", learner=WORDS)
        cosines = _by_mechanism(here.filter(figure="cosine"))
        above = surely_above(cosines)
        more = surely_above(_by_mechanism(taught.filter(texts=taught["texts"].min())))
        means = {name: float(np.mean(values)) for name, values in cosines.items()}
        one_text = dict(group.select("mechanism", "one_text").iter_rows())
        tier = tiers({name: mean for name, mean in means.items() if mean > one_text[name]}, above)
        standing += [
            named | {"mechanism": name, "tier": tier.get(name), "above": above[name], "teaches_more": more[name]}
            for name in above
        ]
    keys = [*_CLASS, "budget", "mechanism"]
    schema = {**{name: ROWS[name] for name in keys}, **_STANDING}
    joined = marked.join(pl.DataFrame(standing, schema=schema), on=keys, how="left", maintain_order="left")
    return _once(joined).sort(
        [*_CLASS, "tier", "cosine"], descending=[False] * 4 + [True], nulls_last=True, maintain_order=True
    )


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row once, at the loss at which it is shown, with its other losses in the column `repeated`."""
    repeats = rows.filter(pl.col("loss") != pl.col("shown_at")).sort("loss", maintain_order=True)
    at = repeats.group_by(_OF_SHOWN).agg(repeated=pl.struct("loss", "tier")).rename({"shown_at": "loss"})
    shown = rows.filter(pl.col("loss") == pl.col("shown_at")).drop("shown_at")
    return shown.join(at, on=["mechanism", "lengths", "budget", "loss"], how="left", maintain_order="left")


def exceeds(row: Mapping[str, Any]) -> bool:
    """Return True if a row's average loss exceeds its target by more than the precision of a search by law."""
    return row["average"] is not None and row["average"] > _ALLOWANCE * row["loss"]


def _by_mechanism(figures: pl.DataFrame) -> dict[str, list[float]]:
    return {row["mechanism"]: row["values"] for row in figures.to_dicts()}
