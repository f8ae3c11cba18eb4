"""How to read all this."""

from __future__ import annotations

from pathlib import Path

from epsilometer.report.section import Section
from epsilometer.report.wording import confidence
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section:
    """What a loss is, and what it is not."""
    return Section(
        id="reading",
        link="How to read this",
        template=Path(__file__).with_suffix(".html.j2"),
        context={"confidence": confidence(results.params.audit.alpha)},
    )
