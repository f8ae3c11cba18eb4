"""What is worth a look besides losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.schemas import DISAGREEMENTS, ESTIMATORS
from epsilometer.cells.tables import latents_path
from epsilometer.report.cells import composed, look
from epsilometer.report.table import NONE
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of
from tests.support.refusals import refused


def test_what_was_found_is_said() -> None:
    results = audit()
    sentences = text_of(look.section(results), results)
    assert "mvc on queries at ε = 5: 70.0% of the rewrites are the same text" in sentences
    assert "dp_bart on queries: no attack does better than chance at the largest budget, ε = 2500" in sentences


def test_the_claim_composed_in_two_ways_stands_beside_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of mvc 5 nats for each of 9.1 units a text, of 9 words; the other mechanism has latents, and no claim."""
    monkeypatch.chdir(tmp_path)
    before, after = np.array([[3.0, 4.0], [0.0, 5.0]]), np.array([[3.0, 6.0], [4.0, 5.0]])
    for epsilon, array in ((None, before), (5.0, after)):
        path = latents_path(f"queries-{HOSTILE}", epsilon)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array.astype(np.float32))
    outputs = tables_of_all()["outputs"].with_columns(composed=pl.when(mechanism="mvc").then(45.5))
    shown = look.section(audit(outputs=outputs))
    assert shown is not None
    table, _ = shown.tables
    mvc, inside = sorted(table.rows, key=lambda row: str(row["mechanism"]) != "mvc")
    assert (mvc["composed"], mvc["epsilon × mean words"]) == ("45.5", "45")
    assert mvc["loss"] == "exact, 8.00"
    assert (mvc["norm"], mvc["signal over noise"]) == (NONE, NONE)
    assert (inside["norm"], inside["norm of noise"], inside["signal over noise"]) == ("5", "3", "1.25")
    assert inside["epsilon × mean words"] == NONE
    of_distances = audit(outputs=outputs.with_columns(composed=pl.lit(60.0)))  # for a trial, not for units
    table, _ = look.section(of_distances).tables  # type: ignore[union-attr]
    assert {row["epsilon × mean words"] for row in table.rows if row["mechanism"] == "mvc"} == {NONE}
    of_texts = {"claim": pl.lit("45.5 per document; any two texts"), "units": pl.lit(1.0)}
    table, _ = look.section(audit(outputs=outputs.with_columns(**of_texts))).tables  # type: ignore[union-attr]
    assert {row["epsilon × mean words"] for row in table.rows} == {NONE}


def test_the_picture_has_both_ways_to_compose_and_the_table_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mvc composes to 45 by words and to 45.5 by units; the other claims whole texts, and stands at 60 either way."""
    (tmp_path / "runs/mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs/mine")
    of = pl.when(mechanism="mvc").then(45.5).otherwise(60.0)
    results = audit(outputs=tables_of_all()["outputs"].with_columns(composed=of))
    figure = look.composed(results)
    assert figure is not None
    points = {name: rows for name, rows in figure.specification["datasets"].items() if name.startswith("composed")}
    at = {(row["way"], row["mechanism"], row["epsilon"]) for rows in points.values() for row in rows}
    assert at == {
        ("by_words", "mvc", 45.0), ("composed", "mvc", 45.5), ("by_words", HOSTILE, 60.0), ("composed", HOSTILE, 60.0)
    }  # fmt: skip
    assert {row["point"] for rows in points.values() for row in rows if row["mechanism"] == "mvc"} == {8.0}
    assert "<svg" in figure.svg
    table, _ = look.section(results).tables  # type: ignore[union-attr]
    assert table.picture == figure.name == "mine-composed"


def test_an_infinite_loss_stands_above_all_others_in_the_picture() -> None:
    cells = [
        {"dataset": "d", "mechanism": "m", "by_words": e, "composed": e, "point": p} for e, p in ((1, 2), (2, np.inf))
    ]
    figure = composed.figure("name", cells, ["m"])
    assert figure is not None
    points = [row["point"] for row in figure.specification["datasets"]["composed d composed"]]
    assert points == [2, pytest.approx(2.2)]


def test_without_a_claim_for_units_there_is_no_picture() -> None:
    results = audit(outputs=tables_of_all()["outputs"].with_columns(composed=pl.lit(60.0)))
    assert look.composed(results) is None
    table, _ = look.section(results).tables  # type: ignore[union-attr]
    assert table.picture is None


def test_attacks_stand_beside_another_estimator_and_beside_the_embedding() -> None:
    estimators = [
        ("queries", "mvc", 5.0, attack, trials, loss, loss - 0.1)
        for attack, at in (("embedding", (1.5, 2.25)), ("length", (0.0, 0.4)), ("judge", (1.0, 2.0)))
        for trials, loss in zip((100, 400), at, strict=True)
    ]
    disputes = [("queries", "mvc", 5.0, "embedding", "length", 12, 1), ("queries", "mvc", 5.0, "length", "judge", 3, 1)]
    results = audit(
        estimators=pl.DataFrame(estimators, schema=dict(ESTIMATORS), orient="row"),
        disagreements=pl.DataFrame(disputes, schema=dict(DISAGREEMENTS), orient="row"),
    )
    table = look.attacks_table(results)
    embedding, judge, length = table.rows
    assert [row["attack"] for row in table.rows] == ["embedding", "judge", "length"]
    assert [row["trials"] for row in table.rows] == ["400"] * 3
    assert (embedding["loss"], embedding["by two rates"], embedding["first 100"]) == ("2.25", "2.15", "1.50")
    ours, theirs = "right where embedding is wrong", "wrong where embedding is right"
    assert (embedding[ours], embedding[theirs]) == (NONE, NONE)
    assert (judge[ours], judge[theirs]) == ("0", "0"), "a pair of attacks without a dispute has no row"
    assert (length[ours], length[theirs]) == ("0", "12")


def test_texts_and_rewrites_of_private_data_are_refused() -> None:
    """Nothing else hands a section texts that it finds itself."""
    results = audit()
    for read in (lambda: results.texts("letters"), lambda: results.rewrites("letters", "mvc", 5.0)):
        with refused("EPS-R020", "letters"):
            read()


def test_without_outputs_there_is_no_section() -> None:
    assert look.section(bare(estimates())) is None
