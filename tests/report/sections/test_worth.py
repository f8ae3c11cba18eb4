"""What rewritten texts are worth at equal measured loss."""

from __future__ import annotations

import json
import math

import polars as pl

from epsilometer.auditing.claims.verdicts import NOT_REFUTED
from epsilometer.auditing.schemas import EXACT
from epsilometer.report.rows import comparable, strongest
from epsilometer.report.sections import worth
from epsilometer.report.sections.worth import (
    attribute_sentence,
    labels,
    levels,
    tradeoff_points,
    tradeoff_sentence,
)
from tests.support.audited import HOSTILE, MECHANISMS, audit, bare, downstream, estimates, frame, tables_of_all, text_of
from tests.support.exact import losses as exact_of

SIMILARITY = tables_of_all()["similarity"]
NO_EXACT = pl.DataFrame(schema=dict(EXACT))


def losses(estimates: pl.DataFrame, exact: pl.DataFrame = NO_EXACT) -> pl.DataFrame:
    return comparable(estimates, exact, 0.01)


def test_the_closest_mechanism_within_the_target_is_named() -> None:
    results = audit()
    text = text_of(worth.section(results), results)
    # identity is out (it leaks all), dp_bart leaks nothing but is farther off than mvc, whose loss is 1.39 by length.
    assert "on queries mvc at ε = 0.5 keeps most within 1.75 nats: cosine 0.40 (0.30 to 0.50)" in text
    points = tradeoff_points(losses(estimates()), SIMILARITY, downstream()).filter(measure="cosine")
    front = points.filter("best").select("mechanism", "epsilon").rows()
    assert front == [("dp_bart", 0.5), ("mvc", 0.5), ("mvc", 2500.0)]  # and no control
    assert tradeoff_sentence(points, 0.25).startswith("On queries dp_bart at ε = 0.5")
    assert "hardly" not in tradeoff_sentence(points, 0.25, ["mvc"])
    assert ", which hardly reads the texts of some data sets, keeps most" in tradeoff_sentence(
        points, 0.25, ["dp_bart"]
    )
    assert "no measured budget" in tradeoff_sentence(points.filter(mechanism="mvc"), 1.5)
    assert tradeoff_sentence(points.clear(), 1.0) == ""


def test_who_was_spared_the_optimal_adversary_is_said() -> None:
    spared = estimates().filter(dataset="queries")
    assert strongest(spared)["optimal"].all()  # nobody met it
    own = frame(("queries", HOSTILE, 0.5, "likelihood", 990, None, NOT_REFUTED)).filter(attack="likelihood")
    unequal = pl.concat([spared.filter(pl.col("epsilon") == 0.5), own])
    assert strongest(unequal).select("mechanism", "optimal").rows() == [
        (HOSTILE, True),
        ("dp_bart", False),
        ("mvc", False),
    ]
    points = tradeoff_points(losses(unequal), SIMILARITY, downstream()).filter(measure="cosine")
    said = tradeoff_sentence(points, 1.75)
    assert said.startswith("On queries mvc at ε = 0.5, which no optimal adversary attacks, keeps most within 1.75 nats")


def test_what_classifiers_learn_stands_beside_the_loss() -> None:
    results = audit()
    text = text_of(worth.section(results), results)
    # The interval is that of the mean over test texts; the seeds are points beside it.
    assert "queries mvc at ε = 0.5 keeps most within 1.75 nats: macro F1 of intent 0.60 (0.55 to 0.64)" in text
    points = tradeoff_points(losses(estimates()), SIMILARITY, downstream())
    assert points["measure"].unique(maintain_order=True).to_list() == ["macro F1 of intent", "cosine"]
    ranked = points.filter(measure="macro F1 of intent").select("mechanism", "epsilon", "best").rows()
    # Each measure has a front of its own: on that of the cosine the largest budget of mvc lies as well.
    assert ranked == [(HOSTILE, 5.0, True), ("mvc", 0.5, True), ("mvc", 2500.0, False)]
    assert levels(downstream()).select("what", pl.col("value").round(6)).rows() == [
        ("majority", 0.01),
        ("clean texts", 0.8),
    ]
    seeds = points.filter(mechanism="mvc", epsilon=0.5)["seeds"].to_list()
    assert [values and [round(value, 2) for value in values] for values in seeds] == [
        [0.58, 0.59, 0.6, 0.61, 0.62],
        None,
    ]
    few = tradeoff_points(losses(estimates()), SIMILARITY, downstream().filter(pl.col("seed") < 3))
    assert not few.filter(measure="macro F1 of intent")["best"].any()
    assert "macro F1 of intent was trained for fewer than 5 seeds" in tradeoff_sentence(few, 1.5)
    none = tradeoff_points(losses(estimates()), SIMILARITY, downstream().clear())
    assert none["measure"].unique().to_list() == ["cosine"]


def test_points_at_the_ceiling_come_apart_by_their_laws() -> None:
    """Exact averages are solid and stand where they are, sampled losses are hollow."""
    mvc = exact_of({("queries", "mvc", 0.5): 0.5, ("queries", "mvc", 2500.0): 60.0})
    points = tradeoff_points(losses(estimates(), mvc), SIMILARITY, downstream()).filter(measure="cosine")
    marks = worth.figure(points, levels(downstream()), estimates()["mechanism"], 1.5)["datasets"][
        "tradeoff queries cosine"
    ]
    places = {name: [(row["point"], row["solid"]) for row in marks if row["mechanism"] == name] for name in MECHANISMS}
    assert places["mvc"] == [(0.5, True), (60.0, True)]
    assert not any(solid for name, rows in places.items() if name != "mvc" for _, solid in rows)
    assert set(points.filter("best")["mechanism"]) == {"mvc"}  # no lower bound beats an exact loss
    assert tradeoff_sentence(points, 0.6).endswith("at an exact loss of 0.50 (at most 0.51).")
    infinite = exact_of({("queries", "mvc", 0.5): math.inf})
    cut = tradeoff_points(losses(estimates(), infinite), SIMILARITY, downstream())
    assert json.dumps(worth.figure(cut, levels(downstream()), estimates()["mechanism"], 1.5), allow_nan=False)


def test_levels_that_are_alike_share_a_name() -> None:
    points = tradeoff_points(losses(estimates()), SIMILARITY, downstream())
    for clean, named in ((0.8, ["clean texts", "majority"]), (0.03, ["clean texts, majority", ""])):
        near = levels(downstream()).with_columns(
            value=pl.when(what="clean texts").then(clean).otherwise(pl.col("value"))
        )
        figure = worth.figure(points, near, estimates()["mechanism"], 1.5)
        rows = figure["datasets"]["levels tradeoff queries macro F1 of intent"]
        assert [row["what"] for row in rows] == named
        assert len({row["value"] for row in rows}) == 2  # both lines are drawn


def test_attackers_stand_between_their_ends() -> None:
    (attribute,) = labels(downstream())["attribute"]
    assert attribute["clean"] == {"macro": "0.70 ± 0.02", "binary": "0.80 ± 0.00"}
    assert attribute["majority"] == {"macro": "0.33", "binary": None}
    row = next(row for row in attribute["rows"] if row["mechanism"] == "mvc")
    assert (row["static"]["macro"], row["adaptive"]["macro"], row["empty"]) == ("0.50 ± 0.02", "0.60 ± 0.02", 7)
    assert "beats the static one in 1 of 3 cases" in attribute_sentence(downstream())
    assert attribute_sentence(downstream().filter(role="task")) == ""
    results = audit()
    text = text_of(worth.section(results), results)
    table = text[text.index("Private attributes inferred") :]
    assert (
        table.index("clean texts") < table.index(HOSTILE) < table.index("0.60 ± 0.02") < table.rindex("commonest class")
    )


def test_without_utility_there_is_no_section() -> None:
    assert worth.section(bare(estimates())) is None
