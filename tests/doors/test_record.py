"""The record of a question: figures and statuses from one observation, by attacks and by laws."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.doors.ask import ANSWERS, ask
from epsilometer.doors.decide import decide, in_sequence
from epsilometer.doors.record import observed_in, record
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]


def of(mechanism, epsilon: float | None = 1.0) -> Subject:
    return subject(TEXTS, mechanism, epsilon, ["lexical", "length"])


def statuses(table: pl.DataFrame) -> list[tuple[float, str, str]]:
    return table.filter(pl.col("status").is_not_null()).select("epsilon", "figure", "status").rows()


def test_statuses_are_those_of_decide_where_a_law_decides_and_where_attacks_do() -> None:
    asked_for, epsilons = question("which_text"), [8.0, 1.0]
    table = record(asked_for, of("randomized_response"), epsilons, allowed=1.0)
    decided = decide([(asked_for, 1.0)], of("randomized_response"), epsilons)
    assert statuses(table) == decided.select("epsilon", "figure", "decision").rows()
    small = table.filter(epsilon=1.0)
    (law,) = small.filter(by="law").to_dicts()
    assert (law["status"], law["outcomes"]) == (Status.WITHIN, [])
    assert small.filter(figure="lexical")["status"].to_list() == [None], "the law decides, not attacks"
    attacks = table.filter(pl.col("by") == "attacks").select(*ANSWERS)
    assert attacks.equals(ask(asked_for, of("randomized_response"), sorted(epsilons)))


def test_no_larger_budget_passes_than_the_first_that_does_not() -> None:
    falling = of(lambda text, epsilon, rng: text if epsilon < 2 else "nothing")
    table = record(question("which_text"), falling, [3.0, 1.0], trials=500, allowed=1.0)
    assert table.filter(figure="all").select("epsilon", "status").rows() == [(1.0, "beyond"), (3.0, "open")]
    words = [Status.WITHIN, Status.NOT_TESTABLE, Status.NOT_EXCEEDED, Status.BEYOND]
    assert in_sequence(words) == [Status.WITHIN, Status.NOT_TESTABLE, Status.OPEN, Status.BEYOND]


@pytest.mark.parametrize("name", ["which_text", "identifiers", "similarity"])
def test_evidence_is_that_of_the_trials(name: str) -> None:
    asked_for = question(name, {"kinds": ["name"]} if name == "identifiers" else None)
    half = of(lambda text, rng: text if rng.random() < 0.5 else "nothing", None)
    expected = {each.name: each for each in asked_for.observe(half, 50)}
    table = record(asked_for, half, trials=50).filter(pl.col("outcomes").list.len() > 0)
    assert table["figure"].to_list() == [*expected]
    for row in table.to_dicts():
        again = observed_in(row)
        assert again.evidence == expected[again.name].evidence
        assert again.values.tolist() == expected[again.name].values.tolist()


def test_trials_have_the_same_hash_where_they_are_the_same() -> None:
    def hash_of(name: str, trials: int, seed: int, share: float) -> str:
        some = of(lambda text, rng: text if rng.random() < share else "nothing", None).seeded(seed)
        return str(record(question(name), some, trials=trials)["drawn"][0])

    first = hash_of("similarity", 20, 0, 0.5)
    assert first == hash_of("similarity", 20, 0, 0.9)
    others = {hash_of("similarity", 30, 0, 0.5), hash_of("similarity", 20, 1, 0.5), hash_of("which_text", 20, 0, 0.5)}
    assert len(others | {first}) == 4


def test_a_question_without_outcomes_has_none() -> None:
    tail, response = question("tail"), of("randomized_response")
    table = record(tail, response, [8.0], trials=500, allowed=0.01)
    assert table["outcomes"].list.len().fill_null(0).sum() == 0
    decided = decide([(tail, 0.01)], response, [8.0], trials=500)
    assert statuses(table) == decided.select("epsilon", "figure", "decision").rows()
    with refused("EPS-Q022"):
        observed_in(table.row(0, named=True) | {"outcomes": [1.0]})
