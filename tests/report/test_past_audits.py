"""The course of losses from audit to audit."""

from __future__ import annotations

import polars as pl

from epsilometer.reaudit.history import HISTORY
from epsilometer.report import past_audits as history

FIRST, SECOND = "2026-01-05T03:00:00Z", "2026-01-12T03:00:00Z"


def row(**changed: object) -> dict[str, object]:
    values: dict[str, object] = {"date": FIRST, "commit": "abc+", "round": 0, "dataset": "songs", "mechanism": "mine"}
    values |= {"epsilon": 1.0, "attack": "strongest", "trials": 300, "loss": 0.5, "point": 0.7, "upper": 0.9}
    return values | {"ceiling": 4.0} | changed


def past(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(HISTORY))


def test_one_audit_is_no_course() -> None:
    table = past(row(), row(attack="lexical"), row(mechanism="other"))
    assert history.section(table) == ""
    assert history.link(table) == ""
    of_attributes = past(row(attack="gender adaptive"), row(attack="gender adaptive", date=SECOND))
    assert history.section(of_attributes) == history.link(of_attributes) == ""


def test_the_course_of_every_loss_is_values_and_no_name_is_trusted() -> None:
    table = past(
        row(),
        row(attack="lexical"),
        row(mechanism="a<script>alert(1)</script>"),
        row(date=SECOND, point=0.9, upper=float("inf"), commit="<b>"),
    )
    html = history.section(table)
    assert history.link(table) == '<a href="#history">Earlier audits</a>'
    assert "2 audits from 2026-01-05 to 2026-01-12" in html
    assert "alert(1)" in html
    assert "<script>alert" not in html
    assert "&lt;b&gt;" in html
    (moved,) = [part for part in html.split("<tr>") if "+0.20" in part]
    assert ">mine</span>" in moved
    assert "▇█" in moved


def test_losses_are_drawn_cut_at_the_ceiling() -> None:
    best = past(row(), row(date=SECOND, point=0.9, upper=float("inf")))
    points = history.figure(best)["datasets"]["history songs mine"]
    assert [(point["point"], point["upper"]) for point in points] == [(0.7, 0.9), (0.9, 4.0)]
