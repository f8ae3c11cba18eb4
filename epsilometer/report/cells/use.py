"""A test if rewrites keep more than one fixed sentence given to everybody. Every section reads its answer here.

It is measured on data sets with trials of sets (`POSSIBLE`): the fixed sentence is the public text with the largest
mean cosine with all texts of the sets. Rewrites keep more if the lower end of their mean cosine's two-sided interval,
of the audit's level, is above that. A mechanism that keeps no more gives nothing that the fixed sentence does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from epsilometer.report.cells.possible import certified
from epsilometer.report.cells.results import TextResults

MEASURE = "cosine"
FIXED = f"one fixed sentence (by {MEASURE})"

Uses = Mapping[tuple[str, str, float | None], bool]
"""By data set, mechanism and epsilon: True if rewrites keep more than FIXED. Cells not measured are missing."""


def uses(results: TextResults) -> Uses:
    """Return the answer for each cell whose use was measured."""
    columns = ("dataset", "mechanism", "epsilon", "worth_low", "one_text")
    rows = certified(results).drop_nulls("one_text").select(columns).iter_rows()
    return {(dataset, mechanism, epsilon): low > fixed for dataset, mechanism, epsilon, low, fixed in rows}
