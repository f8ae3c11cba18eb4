"""The section on the settings and data sets of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.project.params import ProjectParams
from epsilometer.report.section import Section
from epsilometer.report.table import Table


def section(params: ProjectParams, own: Mapping[str, str], datasets: Sequence[Mapping[str, Any]] = ()) -> Section:
    """Return the section. own: settings of a study, by name; datasets: the study's rows on its data sets."""
    audit = params.audit
    settings = {**own, "alpha": f"{audit.alpha:g}", "seed": f"{audit.seed}", "round": f"{audit.round}"}
    sources = [
        {"data set": name, "source": dataset.source, "public": "yes" if dataset.public else "no"}
        for name, dataset in params.datasets.items()
    ]
    return Section(
        id="settings",
        link="Settings",
        heading="Settings",
        words=params.notes,
        blocks=[
            Table("", "", [settings], page_only=True),
            Table("Data sets", "", datasets or sources, page_only=True),
        ],
    )
