"""What the audit in a folder has measured, of every study that is compared from audit to audit."""

from __future__ import annotations

from pathlib import Path

from epsilometer.pipeline.params import Params, read
from epsilometer.project.paths import inside
from epsilometer.reaudit import baseline
from epsilometer.reaudit.baseline import Baseline
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import records
from epsilometer.studies.anonymity import measured as of_anonymity
from epsilometer.studies.texts import measured as of_texts
from epsilometer.studies.texts.sources import current


def measure(params: Params, folder: Path = Path(".")) -> dict[Row, Measured]:
    """The current audit in a folder, row by row, without the choice of the strongest."""
    return of_texts.measure(params, folder) | of_anonymity.measure(params, folder)


def measured_in(run: Path) -> dict[Row, Measured]:
    """What the audit in a folder has measured. Raises UserError for one that is not that of its params.yaml."""
    with inside(run):
        return measure(read())


def accept(params: Params, commit: str, folder: Path = Path(".")) -> Baseline:
    """Make the current audit in a folder the baseline that re-audits are compared with."""
    about = {"commit": commit, "round": params.audit.round, "audit": of_texts.settings(params)}
    return baseline.accept(measure(params, folder), records(current(params, folder)), about, folder)
