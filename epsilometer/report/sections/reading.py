"""How to read all this."""

from __future__ import annotations

from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.wording import confidence


def section(results: Results) -> Section:
    """What a loss is, and what it is not."""
    return Section(
        id="reading",
        link="How to read this",
        template="reading.html.j2",
        context={"confidence": confidence(results.params.audit.alpha)},
    )
