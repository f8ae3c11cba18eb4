"""The share of the possible: utility, loss and ceiling in one table, bounds marked as bounds, and no ranking."""

from __future__ import annotations

import math
import re

import polars as pl

from epsilometer.auditing.schemas import CEILINGS, POSSIBLE
from epsilometer.report.cells import possible, worth
from epsilometer.report.cells.worth import tradeoff_points
from tests.support.audited import audit, bare, downstream, estimates, exact, tables_of_all, text_of

ROW = {"dataset": "queries", "sets": 100, "worth_low": 0.3, "worth_high": 0.5, "one_text": 0.2, "proved": 0.1}
COLUMNS = ("mechanism", "epsilon", "worth", "loss", "by", "ceiling", "share", "share_is")
ROWS = (
    ("mvc", 0.5, 0.4, 1.0, "law", 0.72, 0.38, "="),
    ("mvc", 5.0, 0.6, 2.0, "attacks", 0.8, 0.67, "≤"),
    ("dp_bart", 0.5, 0.3, 4.0, "latents", 0.9, 0.14, "≥"),
)
TABLE = pl.DataFrame([ROW | dict(zip(COLUMNS, row, strict=True)) for row in ROWS], schema=dict(POSSIBLE))
CURVE = pl.DataFrame(
    [("queries", nats, 1 - math.exp(-nats) / 2) for nats in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)],
    schema=dict(CEILINGS),
    orient="row",
)


def test_ends_are_marked_as_ends() -> None:
    results = audit(possible=TABLE, ceilings=CURVE)
    text = text_of(possible.section(results), results)
    assert "cosine above 0.50 at 0, 0.70 at 0.5, 0.82 at 1, 0.94 at 2 and 1.00 at 4 nats" in text
    assert "the best single text, given to everybody, has 0.20 (100 sets)" in text
    shown = re.sub(r"\s+", " ", text)
    assert "0.400 (0.300 to 0.500)10.720.38" in shown
    assert "≥ 20.80≤ 0.67" in shown
    assert "≤ 40.90≥ 0.14" in shown
    assert "the most useful" not in shown


def test_without_sets_there_is_no_section() -> None:
    assert possible.section(bare(estimates())) is None


def test_the_impossible_is_shaded_to_the_edge_of_the_cosines_panel() -> None:
    table = worth.comparable(estimates(), exact(), 0.01)
    points = tradeoff_points(table, tables_of_all()["similarity"], downstream())
    specification = worth.figure(points, worth.levels(downstream()), estimates()["mechanism"], 1.5, ceilings=CURVE)
    datasets = specification["datasets"]
    shaded = datasets["ceilings tradeoff queries cosine"]
    assert shaded[0] == {"nats": 0.0, "ceiling": 0.5}
    assert shaded[-1]["nats"] > 60, "to the largest loss that is drawn"
    assert shaded[-1]["ceiling"] == 1.0
    assert datasets["ceilings tradeoff queries macro F1 of intent"] == [], "F1 has no such ceiling"
    near = worth._to_the_edge(CURVE, 3.0)
    assert [point["nats"] for point in near] == [0.0, 0.5, 1.0, 2.0, 3.0]
    assert near[-1]["ceiling"] == near[-2]["ceiling"]
