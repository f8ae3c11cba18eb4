"""Do rewrites keep more than one fixed sentence given to everybody? Every section reads this one answer.

It is measured on data sets whose trials are of sets (`POSSIBLE`): the fixed sentence is the public text with the
largest mean cosine with all texts of the sets. Rewrites keep more if the lower end of their mean cosine, of the audit's
two-sided interval, is above that. A mechanism that keeps no more gives nothing that the fixed sentence does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from epsilometer.studies.texts.report.possible import certified
from epsilometer.studies.texts.report.results import TextResults

MEASURE = "cosine"
FIXED = f"one fixed sentence (by {MEASURE})"

Uses = Mapping[tuple[str, str, float | None], bool]
"""By data set, mechanism and epsilon: whether rewrites keep more than FIXED. What was not measured is missing."""


def uses(results: TextResults) -> Uses:
    """Return the answer for each cell whose use was measured."""
    columns = ("dataset", "mechanism", "epsilon", "worth_low", "one_text")
    rows = certified(results).drop_nulls("one_text").select(columns).iter_rows()
    return {(dataset, mechanism, epsilon): low > fixed for dataset, mechanism, epsilon, low, fixed in rows}
