"""Settings and data sets of an audit, with the place of what says where the page comes from (`origin`)."""

from __future__ import annotations

from epsilometer.report.results import Results
from epsilometer.report.rows import datasets
from epsilometer.report.section import Section


def section(results: Results) -> Section:
    """What the estimates were made with."""
    params = results.params
    return Section(
        id="settings",
        link="Settings and origin",
        template="settings.html.j2",
        context={
            "trials": params.trials,
            "audit": params.audit,
            "notes": params.notes,
            "datasets": datasets(results).to_dicts(),
        },
    )
