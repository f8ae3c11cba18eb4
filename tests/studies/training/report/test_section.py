"""The report on training, from tables made for these tests."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.report.table import Table
from epsilometer.studies.training.curves import CURVES
from epsilometer.studies.training.one_run.training import AUDITED
from epsilometer.studies.training.report import section as training
from epsilometer.studies.training.results.well_behaved import FALLS, NO_MESSAGE, NOT_MONOTONE
from epsilometer.studies.training.tables import BUDGETS, CANDIDATES, MEMBERSHIP, RUNS
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
    assert "refute none of 2 claims; they could have refuted 1." in said
    assert "they prove 1.20 of the 2.00 nats" in said
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
    assert "in 0 of 2 models trained as usual (99 %" in usual
    assert "in 1 of 1 models trained too long on purpose (99 %" in long
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


def only(table: Table) -> Mapping[str, object]:
    (row,) = table.rows
    return row


def test_a_claim_is_a_bracket_and_what_was_not_computed_is_left_out() -> None:
    budget = {
        "cell": "songs", "level": 0.5, "effective_sigma": 0.5, "neighbours": "replaced", "sampling": "poisson",
        "delta": 1e-4,
    }  # fmt: skip
    rows = [
        budget | {"accountant": "loss distribution", "lower": 1.9, "upper": 2.0},
        budget | {"accountant": "Renyi", "lower": 0.0, "upper": 1234.5},
    ]
    row = only(training.claimed(pl.DataFrame(rows, schema=dict(BUDGETS))))
    assert (row["loss distribution"], row["Renyi"], row["pure"]) == ("1.90 to 2.00", "1,234", "–")


def test_a_claim_of_fixed_batches_says_whose_place_is_empty_and_an_approximation_is_none_of_the_ends() -> None:
    budget = {
        "cell": "songs", "level": 0.5, "effective_sigma": 0.5, "neighbours": "added or removed", "sampling": "shuffled",
        "delta": 1e-4,
    }  # fmt: skip
    rows = [
        budget | {"accountant": "loss distribution", "lower": 1.9, "upper": 200.0},
        budget | {"accountant": "approximation", "lower": None, "upper": 2.0},
    ]
    row = only(training.claimed(pl.DataFrame(rows, schema=dict(BUDGETS))))
    assert (row["neighbours"], row["sampling"]) == ("added or removed (place left empty)", "shuffled")
    assert (row["loss distribution"], row["approximation"]) == ("1.90 to 200", "2.00")


def test_scores_are_of_other_texts_alone() -> None:
    """Those on training texts are computed from private texts without noise."""
    rows = [
        {"level": None, "seed": seed, "split": split, "metric": "mcc", "value": value + seed / 10, "entry": "songs"}
        for seed in (0, 1)
        for split, value in (("train", 0.9), ("test", 0.5))
    ]
    row = only(training.scored(pl.DataFrame(rows, schema={**RUNS, "entry": pl.String})))
    assert (row["level"], row["runs"], row["mcc"]) == ("–", 2, "0.550 (0.500 to 0.600)")


def test_a_score_has_one_row_of_all_its_bounds_and_the_verdict_of_its_test() -> None:
    """The test of a claim is none of the bounds: one of them may be unable to prove anything where the test can."""
    proof = {
        "cell": "songs", "level": 1.0, "kind": "gradient", "score": "sum", "canaries": 1000,
        "guesses": 400, "right": 323, "verdict": NOT_REFUTED, "sampling": "poisson",
    }  # fmt: skip
    bounds = [
        proof | {"method": "steinke", "lower": 0.0, "ceiling": 0.0},
        proof | {"method": "f-dp", "lower": 0.83, "ceiling": 4.2},
    ]
    row = only(training.proofs(pl.DataFrame(bounds, schema=AUDITED)))
    assert (row["right"], row["claimed"], row["sampling"]) == ("323 of 400", "–", "poisson")
    assert (row["proved by steinke"], row["proved by f-dp"]) == ("0.00 of 0.00", "0.83 of 4.20")
    assert row["verdict"] == NOT_REFUTED


def test_a_model_has_one_row_of_all_its_attacks() -> None:
    model = {"training": "songs", "seed": 0, "overfit": 10, "auc_low": 0.5, "auc_high": 0.7, "level": None}
    rows = [
        model | {"attack": "rmia", "auc": 0.61, "loss": 0.0},
        model | {"attack": "lira", "auc": 0.62, "loss": 0.2},
        model | {"attack": "strongest", "auc": 0.62, "loss": 0.1},
    ]
    row = only(training.memberships(pl.DataFrame(rows, schema=dict(MEMBERSHIP))))
    assert (row["rmia"], row["lira"]) == ("0.610 (0.500 to 0.700)", "0.620 (0.500 to 0.700)")
    assert row["loss of the strongest"] == "0.10"


def test_guesses_stand_beside_their_law_where_it_is_known() -> None:
    guess = {"entry": "songs", "level": 1.0, "candidates": 2, "success_rate": 0.66, "law": 0.657, "loss": 0.6}
    rows = [guess | {"upper": 0.7, "ceiling": 8.2}, guess | {"law": None, "upper": 9.9, "ceiling": 8.2}]
    table = training.guessed(pl.DataFrame(rows, schema={**CANDIDATES, "entry": pl.String}))
    assert [row["by its law"] for row in table.rows] == ["0.6570", "–"]
    assert [row["loss"] for row in table.rows] == ["0.60 to 0.70", "0.60 to 8.20"]


def test_a_curve_names_its_levels_and_its_verdict() -> None:
    curve = {
        "cell": "sent", "family": "reconstruction", "noise": "gaussian", "attack": "lamp", "measure": "rouge_l",
        "size": 8, "levels": [0.1, 1.0], "values": [0.8, 0.2], "verdict": FALLS, "fall_p": 0.001, "rise_p": 0.9,
    }  # fmt: skip
    row = only(training.against_noise(pl.DataFrame([curve], schema=dict(CURVES))))
    assert (row["attack"], row["levels: values"]) == ("lamp, 8", "0.1: 0.800, 1: 0.200")
    assert (row["p of the fall"], row["verdict"]) == ("0.001", FALLS)


def test_utility_stands_beside_what_is_reconstructed_under_the_same_noise() -> None:
    noise = {
        "measure": "rouge_l (decepticons, 8)", "label": "acceptable", "noise": "gaussian", "level": "0.043",
        "score": 0.5, "least": 0.4, "most": 0.6, "value": 0.8, "low": 0.7, "high": 0.9, "front": True,
    }  # fmt: skip
    table = training.utility_table([noise, noise | {"low": None, "high": None, "front": False}])
    assert table.in_results
    first, second = table.rows
    assert first["reconstructed"] == "rouge_l (decepticons, 8)"
    assert (first["mcc"], first["value"], first["interval"]) == ("0.500 (0.400 to 0.600)", "0.800", "0.700 to 0.900")
    assert (first["unbeaten"], second["interval"], second["unbeaten"]) == ("yes", "–", "no")
