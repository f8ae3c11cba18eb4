"""Stage decide: the decision on each mechanism, budget and data set under the stated limits."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.decisions.decide import decide
from epsilometer.auditing.decisions.evidence import Tables
from epsilometer.auditing.schemas import ATTRIBUTE_LOSSES, DECISIONS, ESTIMATES, EXACT, LEAKAGE
from epsilometer.auditing.worth.releases import STANDING
from epsilometer.cells.params import read
from epsilometer.cells.tables import attributes_path, decisions_path, exact_path
from epsilometer.core import tables


def main() -> None:
    """Write data/decisions.parquet."""
    params = read()
    estimates = tables.read("data/estimates.parquet", ESTIMATES)
    exact = pl.concat([tables.read(exact_path(name), EXACT) for name in params.cells])
    of_attributes = [tables.read(attributes_path(name), ATTRIBUTE_LOSSES) for name in params.hiding]
    audited = Tables(
        estimates,
        exact,
        leaked=tables.read("data/leakage.parquet", LEAKAGE),
        standing=tables.read("data/standing.parquet", STANDING),
        attribute_losses=pl.concat([pl.DataFrame(schema=dict(ATTRIBUTE_LOSSES)), *of_attributes]),
    )
    labels = {name: entry.labels for name, entry in params.datasets.items()}
    decided = decide(params.decide.limits, audited, params.decide.attributes, params.audit.alpha, labels=labels)
    tables.write(decided, decisions_path(), DECISIONS)
