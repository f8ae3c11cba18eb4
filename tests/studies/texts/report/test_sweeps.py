"""What a mechanism's settings do."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.schemas import SWEEPS
from epsilometer.studies.texts.report import sweeps
from tests.support.audited import audit, bare, estimates, shown


def test_the_best_value_of_a_setting_is_named() -> None:
    row = {"dataset": "queries", "mechanism": "mvc", "epsilon": 3.0, "setting": "<beta>", "trials": 50}
    row |= {"loss": 0.1, "point": 0.4, "upper": float("inf"), "ceiling": 2.0}
    rows = [
        row
        | {"value": value}
        | {f"{name}{end}": value / 10 for name in ("cosine", "bertscore") for end in ("", "_low", "_high")}
        for value in (1.0, 2.0)
    ]
    table = pl.DataFrame(rows, schema=dict(SWEEPS))
    results = audit(sweeps=table)
    section = sweeps.section(results)
    assert section is not None
    html = shown(section, results)
    assert "mvc on queries: &lt;beta&gt; from 1 to 2; the cosine is largest, 0.200, at 2" in html
    assert "smallest, 0.100, at 1." in html
    assert sweeps.sentences(table.with_columns(cosine_low=0.05))[0].endswith("at 1; their intervals overlap.")
    assert [figure.name for figure in section.figures] == ["sweeps"]


def test_without_sweeps_there_is_no_section() -> None:
    assert sweeps.section(bare(estimates())) is None
