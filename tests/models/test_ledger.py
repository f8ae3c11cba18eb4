"""The ledger counts exactly the texts that a classifier is asked, and never exceeds a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.core.outcomes import Outcomes
from epsilometer.models.ledger import Ledger
from tests.support.broken.uncounted import rewrite as uncounted
from tests.support.counting import CountsItself, shorten

QUESTIONS = st.lists(
    st.tuples(st.sampled_from("pq"), st.lists(st.tuples(st.text("ab", max_size=3), st.integers(0, 2)), max_size=6)),
    max_size=6,
)


@given(QUESTIONS, st.none() | st.integers(0, 8))
def test_it_agrees_with_victims_that_count_themselves_and_keeps_the_budget(
    rounds: list[tuple[str, list[tuple[str, int]]]], budget: int | None
) -> None:
    victims = {"p": CountsItself(), "q": CountsItself()}
    ledger = Ledger(victims, 3, budget)
    due: dict[int, set[tuple[str, str]]] = {0: set(), 1: set(), 2: set()}
    for name, questions in rounds:
        rows = ledger.probabilities(name, [text for text, _ in questions], [owner for _, owner in questions])
        for (text, owner), row in zip(questions, rows, strict=True):
            if budget is None or len(due[owner]) < budget or (name, text) in due[owner]:
                due[owner].add((name, text))
                assert row.tolist() == [len(text), -len(text)]
            else:
                assert np.isnan(row).all()
                assert not (row > 0).any()
                assert not (row <= 0).any()
    assert ledger.questions.tolist() == [len(due[owner]) for owner in range(3)]
    assert (ledger.counts["p"] + ledger.counts["q"] == ledger.questions).all()
    assert (ledger.left() >= 0).all()
    for name, victim in victims.items():  # a text that is asked for several private texts is computed once
        every = {text for questions in due.values() for label, text in questions if label == name}
        assert victim.questions == Counter(every)


@given(QUESTIONS, st.none() | st.integers(0, 8))
def test_a_private_texts_count_does_not_depend_on_the_others(
    rounds: list[tuple[str, list[tuple[str, int]]]], budget: int | None
) -> None:
    together = Ledger({"p": CountsItself(), "q": CountsItself()}, 3, budget)
    alone = [Ledger({"p": CountsItself(), "q": CountsItself()}, 1, budget) for _ in range(3)]
    for name, questions in rounds:
        together.probabilities(name, [text for text, _ in questions], [owner for _, owner in questions])
        for number, ledger in enumerate(alone):
            texts = [text for text, owner in questions if owner == number]
            ledger.probabilities(name, texts, [0] * len(texts))
    assert together.questions.tolist() == [int(ledger.questions[0]) for ledger in alone]


def test_a_budget_of_seven_is_never_eight() -> None:
    victim = CountsItself()
    ledger = Ledger({"v": victim}, 1, 7)
    texts = [f"text {i}" for i in range(20)]
    rows = ledger.probabilities("v", texts, [0] * 20)
    assert (~np.isnan(rows[:, 0])).tolist() == [True] * 7 + [False] * 13
    assert not np.isnan(ledger.probabilities("v", texts[:7], [0] * 7)).any()  # asked before, so free
    assert np.isnan(ledger.probabilities("v", ["another"], [0])).all()
    assert victim.questions.total() == ledger.questions[0] == 7


def agrees(rewrite: Callable[[Sequence[str], dict[str, CountsItself]], Outcomes], text: str) -> bool:
    """Whether what an anonymiser says that it asked for a text is what its classifiers were asked."""
    victims = {"p": CountsItself()}
    return bool(rewrite([text], victims).asked.tolist() == [len(victims["p"].questions)])


def test_uncounted_questions_are_caught() -> None:
    assert agrees(shorten, "a long text")
    assert not agrees(uncounted, "a long text")
