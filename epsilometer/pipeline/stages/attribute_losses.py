"""Stage attribute_losses@cell: upper bounds on attribute losses, computed from a mechanism's law without trials."""

from __future__ import annotations

from functools import partial

import polars as pl

from epsilometer.auditing.exact_loss.attributes import attribute_losses
from epsilometer.auditing.exact_loss.losses import Crew, Effort
from epsilometer.auditing.exact_loss.measuring import applies
from epsilometer.auditing.schemas import ATTRIBUTE_LOSSES
from epsilometer.cells.params import read
from epsilometer.cells.reading import mechanism
from epsilometer.cells.tables import attributes_path
from epsilometer.core import tables
from epsilometer.project.paths import audited

_DIGITS = 12  # significant digits of a figure: the last bits of sums differ between processors


def main(name: str) -> None:
    """Write data/attribute_losses/<cell>.parquet; without rows for a mechanism without a law."""
    params = read()
    cell, built = params.cells[name], mechanism(params, name)
    rows = []
    if applies(built):
        texts = audited(params, cell.dataset)
        effort, crew = (
            Effort(params.exact.width, params.exact.all_pairs, params.exact.draws),
            Crew(params.runtime.engine, partial(mechanism, params, name)),
        )
        for label in params.decide.attributes[cell.dataset]:
            classes = texts[label].cast(pl.String).to_list()
            measured = attribute_losses(
                built, texts["text"].to_list(), classes, cell.budgets, seed=params.audit.seed, effort=effort, crew=crew
            )
            named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "attribute": label}
            rows += [named | row for row in measured]
    table = pl.DataFrame(rows, schema=dict(ATTRIBUTE_LOSSES))
    digits = pl.selectors.float().round_sig_figs(_DIGITS)
    tables.write(table.with_columns(digits), attributes_path(name), ATTRIBUTE_LOSSES)
