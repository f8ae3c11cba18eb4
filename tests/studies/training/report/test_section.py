"""What the page says of training: facts, by tables made for the purpose."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.one_run.training import AUDITED
from epsilometer.auditing.results.well_behaved import FALLS, NO_MESSAGE, NOT_MONOTONE
from epsilometer.auditing.schemas import BUDGETS, MEMBERSHIP, RUNS
from epsilometer.studies.training.curves import CURVES
from epsilometer.studies.training.report import section as training
from tests.support.audited import audit


def audited(*rows: tuple[float, float, str, str]) -> pl.DataFrame:
    """Rows of level, bound, method and verdict, of a training that claims at most 2 nats."""
    every = [
        {
            "cell": "songs", "noise": "gaussian", "level": level, "kind": "gradient", "score": "sum", "method": method,
            "canaries": 1000, "lower": bound, "ceiling": 5.0, "bracket_lower": 1.9, "bracket_upper": 2.0, "renyi": 2.5,
            "published": 9.0, "verdict": verdict, "sampling": "poisson",
        }
        for level, bound, method, verdict in rows
    ]  # fmt: skip
    return pl.DataFrame(every, schema=AUDITED)


def test_a_page_without_training_has_no_section() -> None:
    assert training.section(audit()) is None


def test_a_refuted_claim_is_named_and_one_that_could_not_be_refuted_is_not_said_to_hold() -> None:
    (said,) = training.canary_sentence(audited((0.5, 2.6, "f-dp", VIOLATED), (1.0, 0.4, "f-dp", NOT_REFUTED)))
    assert "refute 1 of 2 claims: songs at 0.5" in said
    (said,) = training.canary_sentence(audited((0.5, 1.2, "f-dp", NOT_REFUTED), (1.0, 0.4, "f-dp", NOT_TESTABLE)))
    assert "refute none of 2 claims, of which 1 could have been refuted" in said
    assert "1.20 of 2.00 nats" in said
    assert not training.canary_sentence(audited())


def test_the_largest_of_several_bounds_stands_beside_the_claims_in_the_figure() -> None:
    figure = training.epsilon_figure(audited((0.5, 1.2, "f-dp", NOT_REFUTED), (0.5, 0.7, "steinke", NOT_REFUTED)))
    marks = {mark["kind"]: mark["epsilon"] for mark in figure["datasets"]["marks"]}
    assert marks == {"proved by canaries": 1.2, "loss distribution": 2.0, "Renyi": 2.5, "published": 9.0}
    assert training.epsilon_figure(audited()) is None


def member(training_cell: str, overfit: int, auc: float, low: float) -> dict[str, object]:
    return {
        "training": training_cell, "seed": 0, "overfit": overfit, "attack": "strongest", "best_attack": "lira",
        "auc": auc, "auc_low": low, "auc_high": 2 * auc - low,
    }  # fmt: skip


def test_models_trained_too_long_are_counted_apart() -> None:
    table = pl.DataFrame(
        [member("songs", 1, 0.52, 0.45), member("songs", 1, 0.51, 0.44), member("long", 10, 0.7, 0.65)],
        schema=dict(MEMBERSHIP),
    )
    usual, long = training.membership_sentence(table, 0.01)
    assert "2 models trained as usual" in usual
    assert "in 0 (99 %" in usual
    assert "on purpose" in long
    assert "in 1 (99 %" in long
    assert "0.70 (0.65 to 0.75), by lira on long" in long


def curve(verdict: str | None, **more: object) -> dict[str, object]:
    return {
        "cell": "sent", "family": "reconstruction", "noise": "gaussian", "attack": "lamp", "measure": "rouge_l",
        "size": 1, "levels": [0.1, 1.0], "values": [0.8, 0.2], "verdict": verdict, "fall_p": 0.1, "rise_p": 0.9,
    } | more  # fmt: skip


def test_curves_are_counted_by_their_verdicts() -> None:
    verdicts = FALLS, NO_MESSAGE, NOT_MONOTONE, FALLS, NOT_TESTABLE, None
    table = pl.DataFrame([curve(verdict) for verdict in verdicts], schema=dict(CURVES))
    (said,) = training.curve_sentence(table)
    assert "5 curves of reconstruction attacks against noise: 2 fall significantly" in said
    assert "1 rises significantly somewhere, 1 shows neither" in said
    assert "1 is not testable" in said


def test_the_figure_shows_the_primary_figure_of_every_attack_that_has_levels() -> None:
    rows = [
        curve(NOT_TESTABLE),
        curve(None, measure="jaccard"),
        curve(None, levels=[0.1], values=[0.8], attack="likelihood"),
        curve(None, measure="loss", size=16, family="candidates", attack="candidates"),
    ]
    figure = training.curve_figure(pl.DataFrame(rows, schema=dict(CURVES)))
    assert figure is not None
    assert {*figure["datasets"]} == {"lamp: rouge_l, 1", "candidates: loss, 16"}


@pytest.mark.parametrize(("word", "kind"), [("book", "right"), ("a", "elsewhere"), ("car", "wrong")])
def test_words_of_a_reconstruction_are_right_elsewhere_or_wrong(word: str, kind: str) -> None:
    assert (kind, word) in training.marked({"truth": "book me a flight", "found": "book a car"})


def test_scores_on_training_texts_are_not_shown() -> None:
    """They are computed from private texts without noise."""
    rows = [
        {"level": 0.5, "seed": seed, "split": split, "metric": "mcc", "value": value + seed / 10, "entry": "songs"}
        for seed in (0, 1)
        for split, value in (("train", 0.9), ("test", 0.5))
    ]
    (row,) = training.run_rows(pl.DataFrame(rows, schema={**RUNS, "entry": pl.String}))
    assert row["scores"]["mcc"] == (pytest.approx(0.55), 0.5, 0.6, 2)


def test_claims_stand_in_one_row_a_level() -> None:
    rows = [
        {
            "cell": "songs", "level": 0.5, "effective_sigma": 0.5, "neighbours": "added or removed",
            "sampling": "poisson", "accountant": name, "delta": 1e-4, "lower": upper - 0.1, "upper": upper,
        }
        for name, upper in (("loss distribution", 2.0), ("Renyi", 2.5))
    ]  # fmt: skip
    (row,) = training.claim_rows(pl.DataFrame(rows, schema=dict(BUDGETS)))
    assert row["by"]["Renyi"]["upper"] == 2.5
    assert row["delta"] == 1e-4
