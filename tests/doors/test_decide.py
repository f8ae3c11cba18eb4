"""Decisions on limits of any questions, at ascending budgets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.core.flaws import Flaw
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.doors.decide import decide
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]
LOSS, TAIL = (question("which_text"), 1.0), (question("tail"), 0.01)


def of(mechanism, epsilon: float | None = 1.0) -> Subject:
    return subject(TEXTS, mechanism, epsilon, ["lexical", "length"])


def words(table: pl.DataFrame) -> list[tuple[float | None, str]]:
    return table.filter(figure="all").select("epsilon", "decision").rows()


class Verbatim(RandomizedResponse):
    """States the law of randomised response, and releases its source."""

    def rewrite(self, texts, epsilon, noise):
        return Rewrites(list(texts), Ragged.single(self._numbers(texts)))


def test_a_law_decides_and_its_bound_is_the_known_loss() -> None:
    """Of randomised response among 60 texts at 1 nat two differ by at most 1 nat, and on average by far less."""
    table = decide([LOSS, TAIL], of("randomized_response"), [8.0, 1.0])
    assert words(table) == [(1.0, "within"), (8.0, "beyond")]
    loss = table.row(0, named=True)
    assert loss["by"] == "law"
    assert loss["low"] == pytest.approx(loss["high"])
    assert 0 < loss["high"] < 1
    assert table.filter(epsilon=8.0, figure="lexical").item(0, "low") > 3


def test_a_law_that_the_rewrites_refute_decides_nothing() -> None:
    assert words(decide([LOSS], of(Verbatim(resource=tuple(TEXTS))))) == [(1.0, "beyond")]


def test_a_black_box_is_never_within() -> None:
    table = decide([LOSS], of(lambda text, rng: "nothing", None), trials=1000)
    assert words(table) == [(None, Status.NOT_EXCEEDED)]


def test_no_larger_budget_passes_than_the_first_that_does_not() -> None:
    """A mechanism that releases its source at small budgets alone, contrary to what budgets mean."""
    falling = of(lambda text, epsilon, rng: text if epsilon < 2 else "nothing")
    table = decide([LOSS], falling, [1.0, 3.0], trials=1000)
    assert words(table) == [(1.0, "beyond"), (3.0, "open")]
    assert set(table.filter(epsilon=3.0).filter(pl.col("figure") != "all")["decision"]) == {Status.NOT_EXCEEDED}


def test_too_few_trials_test_nothing_and_say_how_many_would() -> None:
    table = decide([LOSS], of(lambda text, rng: "nothing", None), trials=4)
    assert set(table["decision"]) <= {Status.NOT_TESTABLE, Status.OPEN}
    needed = table.filter(figure="lexical").item(0, "needed")
    again = decide([LOSS], of(lambda text, rng: "nothing", None), trials=needed)
    assert words(again) == [(None, Status.NOT_EXCEEDED)]


class Inverted:
    """An attack that names the other candidate wherever it knows the source."""

    def guess(self, rewrites, candidates, context):
        texts = [context.texts[i] for i in candidates[:, 0]]
        return np.array([int(text == rewrite) for text, rewrite in zip(texts, rewrites.texts, strict=True)])


def test_an_attack_that_is_always_wrong_lets_nothing_pass() -> None:
    """It tells the candidates of the identity apart in each of 500 trials: inverted, it names the source."""
    inverted = subject(TEXTS, "identity", None, [Inverted()])
    assert words(decide([LOSS], inverted, trials=500)) == [(None, "open")]


class Withholding:
    """A service that refuses one answer in ten, and says nothing of any text."""

    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        flaws = np.where(noise.uniforms()[:, 0] < 0.1, Flaw.WITHHELD, Flaw.NONE).astype(np.uint8)
        return Rewrites(["sorry"] * len(texts), flaws=flaws)

    def guarantee(self, epsilon):
        return None


@pytest.mark.parametrize("limit", [LOSS, (question("identifiers", {"kinds": ["date"]}), 0.1)])
def test_a_missing_answer_is_not_private(limit) -> None:
    assert words(decide([limit], of(Withholding(), None), trials=400)) == [(None, "open")]


def test_bad_input() -> None:
    with refused("EPS-Q009"):
        decide([], of("randomized_response"))
    with refused("EPS-A152"):
        decide([(question("linking", {"author": "author"}), 1.0)], of("randomized_response"))
