"""Stage instrument: the known-loss check, an audit of two-text randomised response."""

from __future__ import annotations

from epsilometer.auditing.known_loss import check
from epsilometer.core import tables
from epsilometer.studies.texts.params import read


def main() -> None:
    """Write data/instrument.parquet."""
    params = read()
    table = check(params.instrument.epsilons, params.instrument.trials, params.audit.alpha, params.audit.seed)
    tables.write(table, "data/instrument.parquet", {})
