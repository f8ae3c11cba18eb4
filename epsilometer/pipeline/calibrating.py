"""At which nominal epsilon a loss meets a target: of texts, or of the cells of a project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.calibration.sampled import ATTRIBUTE, Watch, unwatched
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.core.errors import UserError
from epsilometer.pipeline.params import Params, read
from epsilometer.project.paths import inside
from epsilometer.project.sections import Cell
from epsilometer.studies.anonymity.calibrating import row as attribute_row
from epsilometer.studies.anonymity.params import AnonymityCell
from epsilometer.studies.texts.calibrating.losses import (
    ROW,
    STANDARD_SEARCH,
    Search,
    calibrate_cell,
    calibrate_texts,
    check_names,
    progress,
)


class Calibrations(Printed):
    """The table of searches, which prints the epsilons, and why there are none."""

    short = ("dataset", "mechanism", "target", "status", "epsilon", "low", "high", "reason")


def calibrate(
    source: Sequence[str] | str | Path,
    mechanisms: Named | Sequence[Named] = (),
    *,
    target: float,
    settings: Mapping[str, Any] | None = None,
    datasets: Sequence[str] = (),
    search: Search = STANDARD_SEARCH,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Find the nominal epsilon at which each mechanism's loss meets a target, in nats.

    source: the texts, or the folder of a project whose data sets an audit prepared. mechanisms: of texts one or more,
    each as in `epsilometer.audit`, with `settings`; of a project names, all of them by default, which have their
    settings, attacks and design from its params.yaml. datasets: of a project; all by default. While it searches the
    project's folder is the current one.
    Returns a row a mechanism and data set: dataset, mechanism, target, sees, status (`sampled.Calibrated`), epsilon
    (where the loss is expected to meet the target; null where no epsilon does), low and high (it lies between them at
    confidence 1 - alpha; of an exact loss surely), trials (rewrites spent), by (hits, or posteriors where the law of
    the mechanism is known: they believe that law, and need fewer rewrites; or the exact measure), attacks (whose loss
    was searched: rows of other attacks do not compare; null where the loss is none of theirs), reason (why there is no
    epsilon, or what to think of it; else null). The table prints eight columns and holds all: `table.columns`.
    Raises UserError for names and values that are not allowed, before anything is rewritten.
    """
    named = [mechanisms] if isinstance(mechanisms, str) or not isinstance(mechanisms, Sequence) else mechanisms
    if isinstance(source, (str, Path)):
        names = [str(mechanism) for mechanism in named if isinstance(mechanism, (str, Path))]
        if settings or design != STANDARD or len(names) < len(named):
            raise UserError("a project has mechanisms, settings and design in params.yaml; name its mechanisms alone")
        with inside(source):
            watch = partial(progress, search=search)
            rows = list(calibrate_cells(read(), target, search, mechanisms=names, datasets=datasets, watch=watch))
    else:
        if not named or datasets:
            raise UserError("with texts give one mechanism or more, and no datasets")
        rows = [
            calibrate_texts(source, mechanism, target, search, settings=settings, design=design) for mechanism in named
        ]
    return Calibrations(rows, schema=ROW)


def calibrate_cells(
    params: Params,
    target: float,
    search: Search = STANDARD_SEARCH,
    mechanisms: Sequence[str] = (),
    datasets: Sequence[str] = (),
    watch: Callable[[str], Watch] = lambda label: unwatched,
) -> Iterator[dict[str, Any]]:
    """A row a cell of the parameter file, of these mechanisms and data sets; all without names.

    Needs the data sets as the audit prepared them. What was counted is kept in data/calibrating. watch: by label, what
    is called while a cell is searched. Raises UserError for unknown names, before anything is rewritten.
    """
    search.goal(target)
    search.aim(target)  # which refuses what cannot be aimed at
    cells: Mapping[str, Cell] = params.cells
    if search.measure == ATTRIBUTE:
        cells = {name: cell for name, cell in params.anonymity.items() if cell.part == "test"}
    if not cells:
        raise UserError("no cell is measured by its attribute loss; name one under anonymity in params.yaml")
    check_names(params, mechanisms, datasets, search.attack)
    for cell in cells.values():
        if (mechanisms and cell.mechanism not in mechanisms) or (datasets and cell.dataset not in datasets):
            continue
        if isinstance(cell, AnonymityCell):
            of = {"dataset": cell.dataset, "mechanism": cell.mechanism, "target": target, "sees": search.sees}
            yield attribute_row(of, params, cell, partial(search.goal, target))
        else:
            yield calibrate_cell(params, cell, target, search=search, watch=watch)
