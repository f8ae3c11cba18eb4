"""What is worth a look besides losses: odd curves and outputs."""

from __future__ import annotations

from epsilometer.auditing.results.diagnostics import anomalies
from epsilometer.auditing.schemas import OUTPUTS
from epsilometer.report.section import Section
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section | None:
    """What was found automatically."""
    outputs = results.table("data/outputs.parquet", OUTPUTS)
    if outputs.is_empty():
        return None
    odd = anomalies(results.estimates, outputs)
    none = "No curve falls or stays flat beyond its intervals, no texts are hardly read, and no outputs are odd."
    some = "Each of these may have an innocent explanation, a large budget say; none proves anything."
    return Section(
        id="look",
        link="Oddities",
        heading="Worth a look",
        words=[some, *odd] if odd else [none],
        folded=True,
    )
