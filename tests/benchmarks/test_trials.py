"""Several numbers of trials: a smaller number uses the first trials of a larger one, and not all need embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import trials
from benchmarks.trials import Bench, interval

TEXTS = ["a flight to boston", "is there a meal", "what does it cost today", "ground transport in denver"]


def test_of_every_guess_right_the_loss_has_no_upper_end_and_what_was_not_run_a_dash() -> None:
    assert interval(None) == "–"
    assert interval({"success_rate": 1.0, "loss": 2.0, "upper": 9.0}) == "at least 2.00"
    assert interval({"success_rate": 0.9, "loss": 2.0, "upper": 3.0}) == "2.00 to 3.00"


def test_fewer_trials_are_the_first_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "ENCODED", 40)
    bench = Bench(TEXTS, [40, 400])
    losses = bench.losses(10.0)
    assert {attack for attack, count in losses if count == 40} == {"lexical", "length", "likelihood", "embedding"}
    assert {attack for attack, count in losses if count == 400} == {"lexical", "length", "likelihood"}
    assert np.array_equal(bench.first(40).candidates, bench.all.candidates[:40])
    assert losses["likelihood", 40]["trials"] == 40
    assert losses["likelihood", 400]["trials"] == 400
    low, high = bench.by_law(10.0)
    assert low <= losses["likelihood", 400]["upper"]
    assert losses["likelihood", 400]["loss"] <= high
