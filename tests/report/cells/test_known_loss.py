"""Whether the audit finds losses that are known."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.report.cells import known_loss
from tests.support.audited import audit, text_of


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0.45, 0.9), "Passed: at all 2 known losses"),
        ((0.55, 0.9), "Look here first. The audit reported more than the truth at 0.5 nats."),
        ((0.45, 0.8), "Look here first. The audit reported less than 85 % of the truth at 1 nats."),
    ],
)
def test_a_loss_that_is_not_found_is_said(losses: tuple[float, float], expected: str) -> None:
    table = pl.DataFrame(
        [(e, 1000, loss, e, 2 * e, 7.0) for e, loss in zip((0.5, 1.0), losses, strict=True)],
        schema=dict(known_loss.INSTRUMENT),
        orient="row",
    )
    assert known_loss.sentence(table).startswith(expected)
    results = audit(instrument=table)
    assert expected in text_of(known_loss.section(results), results)


def test_without_a_check_there_is_no_section() -> None:
    assert known_loss.section(audit(instrument=pl.DataFrame(schema=dict(known_loss.INSTRUMENT)))) is None
