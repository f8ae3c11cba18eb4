"""The strongest attack, and how much of it length alone proves."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.report.rows import strongest
from epsilometer.studies.texts.report.datasets import datasets
from epsilometer.studies.texts.report.strongest import few_sentence, length_sentence
from tests.support.audited import TRIALS, audit, estimates, frame


def test_the_strongest_attack_is_named_with_its_corrected_loss() -> None:
    best = strongest(estimates()).filter(dataset="queries", mechanism="mvc", epsilon=5.0).row(0, named=True)
    assert best["attack"] == "embedding"
    assert best["loss"] == estimate(820, TRIALS, alpha=0.005).loss


def test_few_distractors_are_said() -> None:
    assert few_sentence(datasets(audit())) == (
        "Few texts serve as distractors on queries (115 of 4,000; five of them 54.0\N{NO-BREAK SPACE}% of the times): "
        "losses there are averages over pairs with these few."
    )
    assert few_sentence(datasets(audit()).filter(dataset="letters")) == ""


def test_length_sentence() -> None:
    leaking = frame(
        ("queries", "mvc", 1.0, "length", 800, None, NO_CLAIM),
        ("queries", "mvc", 5.0, "length", 850, None, NO_CLAIM),
        ("queries", "dp_bart", 1.0, "length", 500, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "length", 900, None, NO_CLAIM),
    )
    loss = estimate(800, TRIALS).loss
    assert length_sentence(leaking) == f"At every budget, length alone gives away at least: mvc ({loss:.2f})."
    assert "no mechanism whose texts length alone" in length_sentence(leaking.filter(mechanism="dp_bart"))
    assert "ran no attack" in length_sentence(leaking.with_columns(attack=pl.lit("embedding")))
