"""The results of the audit in a folder, for every study that is compared between audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import polars as pl

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.pipeline import current
from epsilometer.pipeline.params import Params, read
from epsilometer.project.commit import commit
from epsilometer.project.paths import inside
from epsilometer.project.remembered import remembered
from epsilometer.reaudit import baseline, history
from epsilometer.reaudit.baseline import Baseline
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import records
from epsilometer.report import page
from epsilometer.studies.anonymity import measured as of_anonymity
from epsilometer.studies.texts import measured as of_texts
from epsilometer.studies.texts.sources import current as sources_now


def measure(params: Params, folder: Path = Path(".")) -> dict[Row, Measured]:
    """The current audit in a folder, row by row, without the choice of the strongest."""
    return of_texts.measure(params, folder) | of_anonymity.measure(params, folder)


def losses(params: Params, measured: Mapping[Row, Measured], folder: Path = Path(".")) -> pl.DataFrame:
    """The history's rows for the audit in a folder: the estimates of `cells`, or without cells attribute losses.

    measured: as `measure` returns it.
    """
    if params.cells:
        return tables.read(folder / "data/estimates.parquet", ESTIMATES)
    rows = [row._asdict() | asdict(result.estimate) for row, result in sorted(measured.items())]
    columns = ("trials", "loss", "point", "upper", "ceiling")
    return pl.DataFrame(rows, schema={name: history.HISTORY[name] for name in (*Row._fields, *columns)})


def measured_in(run: Path) -> dict[Row, Measured]:
    """The results of the audit in a folder. Raises UserError if they do not match its params.yaml.

    Its code may differ from today's: two versions of a mechanism can be compared side by side.
    """
    with inside(run):
        params = read()
        current.check(params, with_code=False)
        return measure(params)


def accept(params: Params) -> Baseline:
    """Make the audit in the current folder the baseline for re-audits; the page then shows it.

    Raises UserError for an audit that does not match the present params.yaml and code, and for one without losses that
    a re-audit could compare.
    """
    if not current.measured(params):
        raise UserError(
            "a baseline holds the losses of `cells`, and those of `anonymity` by attackers of test texts (part: test); "
            "params.yaml names neither, so there is nothing to accept: add one, audit, then accept"
        )
    with remembered():
        current.check(params, with_code=True)
    folder, round = Path(), params.audit.round
    at = commit(folder).short
    measured, past = measure(params, folder), history.read()
    estimates = losses(params, measured, folder)
    about = {"commit": at, "round": round, "audit": of_texts.settings(params)}
    accepted = baseline.accept(measured, records(sources_now(params, folder)), about, folder)
    if not history.ends_with(past, estimates, round):
        history.append(estimates, at, round)
    page.refresh()
    return accepted
