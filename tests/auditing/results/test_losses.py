"""The table of an audit prints the columns that a reader needs first, and contains all columns."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.auditing.results.losses import SHORT, chosen, presented
from epsilometer.auditing.schemas import AUDIT
from epsilometer.auditing.trials.design import Design
from tests.support.refusals import refused

TEXTS = [f"please book table {i}" for i in range(30)]


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Of a function that returns its input: all guesses are right."""

    def same(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text

    return epsilometer.audit(TEXTS, same, [1.0, 2.0], ["lexical"], trials=50, design=Design(temperature=0))


def test_a_printed_table_shows_success_loss_and_verdict(table: pl.DataFrame) -> None:
    for shown in (str(table), repr(table), table._repr_html_()):
        assert all(name in shown for name in SHORT)
        assert "…" not in shown
        assert "≥ " in shown
        assert "no claim" in shown
        assert "54 columns" in shown
        assert "equal_trials" not in shown


def test_every_column_is_there(table: pl.DataFrame) -> None:
    assert table.schema == AUDIT
    assert table["successes"].to_list() == [50, 50]
    assert (table["loss"] == table["ceiling"]).all()
    assert "equal_trials" in str(table.select("equal_trials"))  # explicitly selected columns are always printed
    for same in (copy.deepcopy(table), pickle.loads(pickle.dumps(table)), table.clone(), pl.concat([table])):
        assert same.equals(table)


def test_text_of_a_table(table: pl.DataFrame) -> None:
    text = presented(table, ["attack", "loss", "upper", "claim", "best_attack"])
    assert text.row(0)[0] == "lexical"
    assert text.row(0)[1].startswith("≥ ")
    assert text.row(0)[2:] == ("∞", "no claim", "")


def test_columns_are_chosen_by_name() -> None:
    there = ["a", "loss", "upper"]
    assert chosen(None, there, ["loss"]) == ["loss"]
    assert chosen("all", there, ["loss"]) == there
    assert chosen("upper,a", there, ["loss"]) == ["upper", "a"]
    with refused("EPS-C022", "los", "loss"):
        chosen("a,los", there, ["loss"])
