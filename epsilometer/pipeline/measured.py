"""What the audit in a folder has measured, of every study that is compared from audit to audit."""

from __future__ import annotations

from pathlib import Path

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core import tables
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


def measured_in(run: Path) -> dict[Row, Measured]:
    """What the audit in a folder has measured. Raises UserError for one that is not that of its params.yaml.

    Its code may be another than today's: two versions of a mechanism are laid side by side.
    """
    with inside(run):
        params = read()
        current.check(params, with_code=False)
        return measure(params)


def accept(params: Params) -> Baseline:
    """Make the audit in the current folder the baseline that re-audits are compared with; the page then shows it.

    Raises UserError for an audit that is not that of params.yaml and the code as they are now.
    """
    with remembered():
        current.check(params, with_code=True)
    folder, round = Path(), params.audit.round
    at = commit(folder).short
    estimates, past = tables.read("data/estimates.parquet", ESTIMATES), history.read()
    about = {"commit": at, "round": round, "audit": of_texts.settings(params)}
    accepted = baseline.accept(measure(params, folder), records(sources_now(params, folder)), about, folder)
    if not history.ends_with(past, estimates, round):
        history.append(estimates, at, round)
    page.refresh()
    return accepted
