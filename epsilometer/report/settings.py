"""Settings and data sets of a run, with the place of what says where the page comes from (`origin`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epsilometer.project.params import ProjectParams
from epsilometer.report.section import Section


def section(params: ProjectParams, own: Mapping[str, str], datasets: Sequence[Mapping[str, Any]] = ()) -> Section:
    """What the results were made with. own: settings of a study; datasets: what it says of its data sets."""
    return Section(
        id="settings",
        link="Settings and origin",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "own": own,
            "audit": params.audit,
            "notes": params.notes,
            "datasets": datasets,
            "sources": params.datasets if not datasets else {},
        },
    )
