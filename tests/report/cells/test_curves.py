"""Calibration curves: what is drawn, and what is hollow."""

from __future__ import annotations

import json
import math

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.guarantees import EPSILONS
from epsilometer.report.cells import curves
from epsilometer.report.figures import svg
from epsilometer.report.rows import by_equal_length
from tests.support.audited import HOSTILE, MECHANISMS, Row, audit, bare, estimates, frame
from tests.support.exact_losses import losses


def test_what_cannot_be_compared_is_hollow_and_named() -> None:
    """Attacks on latents, and beyond the number of candidates that an attack was validated for."""
    rows: list[Row] = [
        ("queries", "dp_bart", 5.0, "embedding", 520, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "internal", 1000, None, NO_CLAIM),
    ]
    data = curves.figure(frame(*rows), "queries")["datasets"]
    solid = {name: points[0]["solid"] for name, points in data.items() if name.startswith("points")}
    assert solid == {"points 0": True, "points 1": False, "points 2": True, "points 3": False}  # the strongest twice
    one_group = curves.figure(frame(rows[0]), "queries")["datasets"]
    assert len([name for name in one_group if name.startswith("points")]) == 2  # no panel repeats another
    beyond = frame(rows[0], validated=False)
    assert not curves.figure(beyond, "queries")["datasets"]["points 0"][0]["solid"]


def test_the_ends_of_what_is_allowed_are_drawn() -> None:
    """What `check_epsilons` lets through, a figure's axis holds, both ends in one audit."""
    table = estimates().filter(mechanism="dp_bart", dataset="queries")
    ends = table.with_columns(pl.col("epsilon").replace({0.5: EPSILONS[0], 2500.0: EPSILONS[1]}))
    assert ends["epsilon"].min() == EPSILONS[0]
    assert svg(curves.figure(ends, "queries")).startswith("<svg")


def test_pictures_stand_alone_and_the_page_has_one_legend() -> None:
    (figure,) = [figure for figure in curves.section(bare(estimates())).figures if figure.name == "curves-queries"]
    assert figure.saved is not None
    assert "identity (control)" in svg(figure.saved)
    assert "identity (control)" not in svg(figure.specification)


def test_a_mechanism_without_a_budget_is_a_line_across_the_panel() -> None:
    none = pl.when(pl.col("mechanism") != "identity").then("epsilon")
    datasets = curves.figure(estimates().with_columns(epsilon=none), "queries")["datasets"]
    lines = [rows for name, rows in datasets.items() if name.startswith("without budget")]
    assert lines
    assert all([row["mechanism"] for row in rows] == ["identity"] for rows in lines)
    points = [row for name, rows in datasets.items() if name.startswith("points") for row in rows]
    assert {row["mechanism"] for row in points} == {"dp_bart", "mvc", HOSTILE}
    assert all(row["epsilon"] for row in points)


def test_the_caption_says_what_bands_and_hollow_dots_are() -> None:
    said = " ".join(curves.section(audit()).words)
    assert "or was not validated for this number of candidates" in said
    assert "Its bands are the numerical error of the average, and the range from the median to 95 % of pairs" in said
    assert "The first row" not in " ".join(curves.section(bare(estimates())).words)


def test_curves_go_on_where_trials_end() -> None:
    """Averages, quantiles and the worst pair by the law; what is infinite or known from below has an arrow."""
    ends = losses({("queries", "mvc", 0.5): 1.0, ("queries", "mvc", 5.0): 60.0, ("queries", "mvc", 2500.0): math.inf})
    mean_alone = losses({("queries", "dp_bart", 5.0): 4.0}).with_columns(
        *(pl.lit(None, pl.Float64).alias(name) for name in ("median", "q95", "worst", "error")), method=pl.lit(AT_LEAST)
    )
    inside = losses({("queries", HOSTILE, 5.0): 4.0}, latents=[HOSTILE])
    exact = by_equal_length(pl.concat([ends, mean_alone, inside]))
    table = estimates().filter(attack=STRONGEST)
    figure = curves.figure(table, "queries", exact=exact)
    assert [panel["title"] for panel in figure["concat"]] == [*curves.MEASURES, STRONGEST]
    panels = [
        {name: [row for row in figure["datasets"][f"points {n}"] if row["mechanism"] == name] for name in MECHANISMS}
        for n in range(3)
    ]
    average, quantiles, worst = (panel["mvc"] for panel in panels)
    assert [row["point"] for row in average[:2]] == [1.0, 60.0]
    assert [(row["loss"], row["upper"]) for row in quantiles[:2]] == [(0.5, 2.0), (30.0, 120.0)]
    assert [row["point"] for row in worst[:2]] == [3.0, 180.0]
    for rows in (average, quantiles, worst):
        assert [row["above"] for row in rows] == [False, False, True]
        assert rows[2]["point"] > 180
    assert [[row["above"] for row in panel["dp_bart"]] for panel in panels] == [[True], [], []]
    assert [[row["solid"] for row in panel[HOSTILE]] for panel in panels] == [[False]] * 3
    assert json.dumps(figure, allow_nan=False)
    assert len(curves.figure(table, "letters", exact=exact)["concat"]) == 1  # this data set has no law
