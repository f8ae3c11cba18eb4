"""The processor times of a run's stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from epsilometer.report.table import Table

_SINGLE = "rewrite"  # only this stage has a row for each entry, because an entry's time is the time of a mechanism


def total(seconds: Mapping[str, float]) -> str:
    """Return a sentence on the time of all stages. seconds: the time of each stage that ran here."""
    if not seconds:
        return "No stage ran in this folder, so the processor time is unknown."
    return f"{len(seconds)} stages ran here, in {sum(seconds.values()) / 60:,.0f} minutes of processor time."


def table(seconds: Mapping[str, float]) -> Table:
    """Return a row per stage, the longest first, and for `rewrite` a row per entry."""
    of_stage = defaultdict[str, list[float]](list)
    for stage, time in seconds.items():
        name, _, entry = stage.partition("@")
        of_stage[f"{name} {entry}" if name == _SINGLE else name].append(time)
    rows = [
        {"stage": stage, "runs": f"{len(times):,}", "processor, s": f"{sum(times):,.0f}"}
        for stage, times in sorted(of_stage.items(), key=lambda item: -sum(item[1]))
    ]
    return Table("What the stages took", "Processor time of each process, imports included.", rows)
