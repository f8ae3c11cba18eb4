"""The results of cells, studies and questions that re-audits compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import polars as pl

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.cells import measured as of_cells
from epsilometer.cells import sources as cell_sources
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.study import studies
from epsilometer.pipeline import answers, current
from epsilometer.pipeline.params import Params, read
from epsilometer.project.commit import commit
from epsilometer.project.paths import inside
from epsilometer.project.remembered import remembered
from epsilometer.reaudit import baseline, history
from epsilometer.reaudit.baseline import Baseline
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import Source, records
from epsilometer.report import page


def measure(params: Params, folder: Path = Path(".")) -> dict[Row, Measured]:
    """Return the results of the current audit in a folder, by row, without the extra rows for the strongest attack."""
    rows = of_cells.measure(params, folder)
    for study in studies():
        rows.update(study.measure(params, folder))
    return rows | answers.measure(params, folder)


def sources(params: Params, folder: Path = Path(".")) -> list[Source]:
    """Return the sources of the results, whose updates a re-audit looks for. Does not ask the hub."""
    return [*cell_sources.current(params, folder), *answers.sources(params, folder)]


def losses(params: Params, measured: Mapping[Row, Measured], folder: Path = Path(".")) -> pl.DataFrame:
    """Return the history's rows for the audit in a folder: the estimates of `cells`, and the figures of questions.

    Without cells, attribute losses replace the estimates. measured: from `measure`.
    """
    shown = {row: result for row, result in measured.items() if result.of_question or not params.cells}
    rows = [row._asdict() | asdict(result.estimate) for row, result in sorted(shown.items())]
    columns = (*Row._fields, "trials", "loss", "point", "upper", "ceiling")
    table = pl.DataFrame(rows, schema={name: history.HISTORY[name] for name in columns})
    if not params.cells:
        return table
    estimates = tables.read(folder / "data/estimates.parquet", ESTIMATES)
    return pl.concat([estimates.select(columns), table])


def measured_in(run: Path) -> dict[Row, Measured]:
    """Return the results of the audit in a folder. Raises UserError if they do not match its params.yaml.

    The audit may be of older code, so that two versions of a mechanism can be compared.
    """
    with inside(run):
        params = read()
        current.check(params, with_code=False)
        return measure(params)


def accept(params: Params) -> Baseline:
    """Make the audit in the current folder the baseline for re-audits, and update the page.

    Raises UserError if the audit does not match the present params.yaml and code, or has no losses to compare.
    """
    if not current.measured(params):
        raise UserError(
            "there is nothing to accept: a baseline has the losses of `cells`, those of attackers on test texts "
            "under `anonymity` (part: test), and the figures of `questions`, but params.yaml has none of these; add "
            "one, audit, then accept",
            "EPS-P036",
        )
    with remembered(Path(params.root)):
        current.check(params, with_code=True)
    folder, round = Path(), params.audit.round
    at = commit(folder).short
    measured, past = measure(params, folder), history.read()
    if not measured:
        raise UserError(
            "the questions of params.yaml have no outcome for each trial, so changes could not be tested; add another "
            "question, such as which_text",
            "EPS-P037",
        )
    estimates = losses(params, measured, folder)
    about = {"commit": at, "round": round, "audit": of_cells.settings(params)}
    accepted = baseline.accept(measured, records(sources(params, folder)), about, folder)
    if not history.ends_with(past, estimates, round):
        history.append(estimates, at, round)
    page.refresh()
    return accepted
