"""The tables of trainings in Markdown: rows by hand, and what their cells then say."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import NOT_REFUTED
from epsilometer.auditing.one_run.training import AUDITED
from epsilometer.auditing.results.well_behaved import FALLS
from epsilometer.auditing.schemas import BUDGETS, CANDIDATES, MEMBERSHIP, RUNS
from epsilometer.studies.training.curves import CURVES
from epsilometer.studies.training.report import markdown as training_markdown
from tests.support.audited import audit


def only(section: tuple[str, str, pl.DataFrame]) -> dict[str, object]:
    return section[2].row(0, named=True)


def test_an_audit_without_training_has_no_tables_of_it() -> None:
    assert not list(training_markdown.sections(audit()))


def test_a_claim_is_a_bracket_and_what_was_not_computed_is_left_out() -> None:
    budget = {
        "cell": "songs", "level": 0.5, "effective_sigma": 0.5, "neighbours": "replaced", "sampling": "poisson",
        "delta": 1e-4,
    }  # fmt: skip
    rows = [
        budget | {"accountant": "loss distribution", "lower": 1.9, "upper": 2.0},
        budget | {"accountant": "Renyi", "lower": 0.0, "upper": 1234.5},
    ]
    row = only(training_markdown.claimed(pl.DataFrame(rows, schema=dict(BUDGETS))))
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
    row = only(training_markdown.claimed(pl.DataFrame(rows, schema=dict(BUDGETS))))
    assert (row["neighbours"], row["sampling"]) == ("added or removed (place left empty)", "shuffled")
    assert (row["loss distribution"], row["approximation"]) == ("1.90 to 200", "2.00")


def test_scores_are_of_other_texts_alone() -> None:
    rows = [
        {"level": None, "seed": seed, "split": split, "metric": "mcc", "value": value + seed / 10, "entry": "songs"}
        for seed in (0, 1)
        for split, value in (("train", 0.9), ("test", 0.5))
    ]
    row = only(training_markdown.scored(pl.DataFrame(rows, schema={**RUNS, "entry": pl.String})))
    assert (row["level"], row["runs"], row["mcc"]) == ("–", 2, "0.550 (0.500 to 0.600)")


def test_what_canaries_prove_stands_beside_its_ceiling_and_the_claim() -> None:
    proof = {
        "cell": "songs", "level": 1.0, "kind": "gradient", "score": "sum", "method": "f-dp", "canaries": 1000,
        "guesses": 400, "right": 323, "lower": 0.83, "ceiling": 4.2, "verdict": NOT_REFUTED, "sampling": "poisson",
    }  # fmt: skip
    row = only(training_markdown.proved(pl.DataFrame([proof], schema=AUDITED)))
    assert (row["right"], row["proved"], row["ceiling"], row["claimed"]) == ("323 of 400", "0.83", "4.20", "")
    assert row["sampling"] == "poisson"


def test_a_model_has_one_row_of_all_its_attacks() -> None:
    model = {"training": "songs", "seed": 0, "overfit": 10, "auc_low": 0.5, "auc_high": 0.7, "level": None}
    rows = [
        model | {"attack": "rmia", "auc": 0.61, "loss": 0.0},
        model | {"attack": "lira", "auc": 0.62, "loss": 0.2},
        model | {"attack": "strongest", "auc": 0.62, "loss": 0.1},
    ]
    row = only(training_markdown.members(pl.DataFrame(rows, schema=dict(MEMBERSHIP))))
    assert (row["rmia"], row["lira"]) == ("0.610 (0.500 to 0.700)", "0.620 (0.500 to 0.700)")
    assert row["loss of the strongest"] == "0.10"


def test_guesses_stand_beside_their_law_where_it_is_known() -> None:
    guess = {"entry": "songs", "level": 1.0, "candidates": 2, "success_rate": 0.66, "law": 0.657, "loss": 0.6}
    rows = [guess | {"upper": 0.7, "ceiling": 8.2}, guess | {"law": None, "upper": 9.9, "ceiling": 8.2}]
    table = training_markdown.guessed(pl.DataFrame(rows, schema={**CANDIDATES, "entry": pl.String}))[2]
    assert table["by its law"].to_list() == ["0.6570", ""]
    assert table["loss"].to_list() == ["0.60 to 0.70", "0.60 to 8.20"]


def test_a_curve_names_its_levels_and_its_verdict() -> None:
    curve = {
        "cell": "sent", "family": "reconstruction", "noise": "gaussian", "attack": "lamp", "measure": "rouge_l",
        "size": 8, "levels": [0.1, 1.0], "values": [0.8, 0.2], "verdict": FALLS, "fall_p": 0.001, "rise_p": 0.9,
    }  # fmt: skip
    row = only(training_markdown.against_noise(pl.DataFrame([curve], schema=dict(CURVES))))
    assert (row["attack"], row["levels: values"]) == ("lamp, 8", "0.1: 0.800, 1: 0.200")
    assert (row["p of the fall"], row["verdict"]) == ("0.001", FALLS)
