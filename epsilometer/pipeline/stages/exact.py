"""Stage exact@cell: the exact loss between pairs of texts, computed from a mechanism's law.

The pairs are from the audit's first trials, weighted by their frequency in these trials (`exact` in params.yaml). If
trials are of sets (`auditing.ceilings.set_trials`), the pairs are from all trials, because worth is measured on all
trials.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from epsilometer.auditing.exact_loss.losses import Crew, Effort
from epsilometer.auditing.exact_loss.measuring import applies, measure, pairwise
from epsilometer.auditing.exact_loss.pairs import of_audit, of_trials
from epsilometer.auditing.schemas import EXACT, EXACT_CURVES
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import trials, well_read
from epsilometer.cells.tables import curves_path, exact_path
from epsilometer.core import tables
from epsilometer.project.paths import audited_texts

_DIGITS = 12  # significant digits of a figure: the last bits of sums differ between processors


def main(name: str) -> None:
    """Write data/exact/<cell>.parquet and data/exact/<cell>.curves.parquet; without rows for a mechanism without a law.

    The column `seconds` is null and figures have twelve digits, so that the bytes do not depend on the machine. If the
    texts are private, the column `witness` is null.
    """
    params = read_params()
    cell, built = params.cells[name], well_read(params, name)
    losses, curves = pl.DataFrame(schema=dict(EXACT)), pl.DataFrame(schema=dict(EXACT_CURVES))
    if applies(built):
        texts = audited_texts(params, cell.dataset)
        audit_trials = trials(cell.dataset)
        pairs = (
            of_audit(audit_trials, texts, params.exact.pairs, pairwise(built))
            if params.datasets[cell.dataset].sets is None
            else of_trials(audit_trials, texts)
        )
        effort = Effort(params.exact.width, params.exact.all_pairs, params.exact.draws)
        crew = Crew(params.runtime.engine, partial(well_read, params, name))
        measured = measure(built, texts, cell.budgets, pairs, effort=effort, crew=crew)
        of_cell = [pl.lit(cell.dataset).alias("dataset"), pl.lit(cell.mechanism).alias("mechanism")]
        losses = measured.losses.with_columns(*of_cell, seconds=pl.lit(None, pl.Float64)).select(list(EXACT))
        curves = measured.curves.with_columns(*of_cell).select(list(EXACT_CURVES))
        if not params.datasets[cell.dataset].public:
            losses = losses.with_columns(witness=pl.lit(None, pl.String))
    digits = pl.selectors.float().round_sig_figs(_DIGITS)
    tables.write(losses.with_columns(digits), exact_path(name), EXACT)
    tables.write(curves.with_columns(digits), curves_path(name), EXACT_CURVES)
