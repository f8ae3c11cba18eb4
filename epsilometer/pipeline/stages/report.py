"""Stage report: the page, its figures, and the tracked metrics."""

from __future__ import annotations

from pathlib import Path

from epsilometer.pipeline import reporting
from epsilometer.pipeline.params import read
from epsilometer.report import body, page
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.tracked import metrics, plot_table


def main() -> None:
    """Write data/report.html, reports/figures, reports/metrics and reports/calibration.csv.

    Also writes reports/audit.html, the page with a record of its origin, which DVC does not track.
    """
    params = read()
    results = TextResults(params)
    body.build(reporting.body(params, results), page.BODY, Path("reports/figures"))
    metrics(results.estimates, results.exact, Path("reports/metrics"))
    plot_table(results.estimates, results.exact, Path("reports/calibration.csv"))
    page.write()
