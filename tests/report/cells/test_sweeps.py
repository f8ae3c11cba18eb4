"""What a mechanism's settings do."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.schemas import SWEEPS
from epsilometer.report.cells import sweeps
from tests.support.audited import audit, bare, estimates, shown


def test_every_value_of_a_setting_has_its_utility_and_its_loss() -> None:
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
    assert "&lt;beta&gt;" in shown(section, results)
    (varied,) = section.tables
    assert [(row["value"], row["cosine"]) for row in varied.rows] == [
        ("1", "0.100 (0.100 to 0.100)"),
        ("2", "0.200 (0.200 to 0.200)"),
    ]
    assert varied.rows[0]["loss"] == "ceiling"
    assert [figure.name for figure in section.figures] == ["sweeps"]


def test_without_sweeps_there_is_no_section() -> None:
    assert sweeps.section(bare(estimates())) is None
