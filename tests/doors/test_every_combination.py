"""Every question, in every way of asking that its evidence allows, on four subjects.

The subjects are `identity`, which reveals everything; `constant`, which reveals nothing; randomised response, whose
loss is known; and a component that fails. Attacks, trials and texts are few. Except for randomised response, a leak is
either total or absent, so each answer is wrong with probability below 1e-6.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.evidence.status import Change, SearchStatus, Status
from epsilometer.auditing.question import Need, Question, question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import Search
from epsilometer.core.component import QUESTIONS, find, names
from epsilometer.core.errors import UserError
from epsilometer.doors import reaudit
from epsilometer.doors.ask import ask
from epsilometer.doors.calibrate import calibrate
from epsilometer.doors.compare import compare
from epsilometer.doors.decide import decide
from epsilometer.doors.gate import Rules, gate
from tests.support.combinations import DOORS, opens
from tests.support.places import ROOT
from tests.support.refusals import refused

pytest_plugins = ["pytester"]

SETTINGS = {
    "attribute": {"attribute": "gender", "kinds": ["linear"]},
    "authorship": {"author": "gender", "authors": 2, "together": (1, 3)},
    "linking": {"author": "author", "among": 4, "attacks": ["bm25"]},
}
LIMITS = {"attribute": 0.8, "claim": 0.0, "identifiers": 0.2, "linking": 0.8, "tail": 0.05}  # 0.5 for all others
TRIALS = {"attribute": 400, "linking": 40, "identifiers": 120, "similarity": 120, "tail": 3000}  # 600 for all others
WORDS = {"f": ("gown", "purse", "scarf"), "m": ("beard", "razor", "tie")}
KNOWN = 6.0  # the epsilon of randomised response, among 120 texts


def build(name: str) -> Question:
    return question(name, SETTINGS.get(name))


def limit(name: str) -> float:
    return LIMITS.get(name, 0.5)


def trials(name: str) -> int:
    return TRIALS.get(name, 600)


@cache
def table(count: int = 120) -> pl.DataFrame:
    """Texts that name a person, show their gender and are of an author of four."""
    rows = []
    for i in range(count):
        gender = "fm"[i % 2]
        text = f"Person{i} of house {i // 8 * 2 + i % 2} bought a {WORDS[gender][i // 2 % 3]} on day {i}"
        rows.append({"text": text, "gender": gender, "author": f"{i // 8 * 2 + i % 2}"})
    texts = pl.DataFrame(rows)
    return texts.with_columns(
        identifiers=pl.Series([[f"Person{i}"] for i in range(count)]),
        identifier_kinds=pl.Series([["name"]] * count),
    )


def of(name: str, mechanism, epsilon: float | None = None) -> Subject:
    """A mechanism on the texts of a question: attackers of an attribute learn from more."""
    texts = table({"attribute": 400, "worst_pair": 40}.get(name, 120))
    return subject(texts, mechanism, epsilon, ["lexical"], design=Design(temperature=0, alpha=0.01))


@cache
def shipped(name: str, mechanism: str) -> Subject:
    return of(name, mechanism, KNOWN if mechanism == "randomized_response" else None)


class Broken:
    """A component that fails."""

    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        raise ZeroDivisionError

    def guarantee(self, epsilon):
        return find("mechanisms", "randomized_response", "rewrite")(resource=("a", "b")).guarantee(1.0)


def pairs(*doors: str) -> list[tuple[str, str]]:
    return [
        (name, door) for name in names(QUESTIONS) for door in doors if opens(find(QUESTIONS, name, "observe"), door)
    ]


def claims(name: str, of: Subject) -> bool:
    return Need.CLAIM not in build(name).needs or of.mechanism.guarantee(of.epsilon) is not None


def answer(name: str, door: str, of: Subject) -> Status:
    """The heaviest status of a question's figures."""
    if door == "gate":
        return gate(of, Rules([(build(name), limit(name))], budget=2000)).status
    answers = decide([(build(name), limit(name))], of, trials=trials(name))
    return Status(answers.filter(figure="all").item(0, "decision"))


@pytest.mark.parametrize(("name", "door"), pairs("gate", "decide"))
def test_who_tells_everything_is_beyond_and_who_tells_nothing_never_is(name: str, door: str) -> None:
    for leaks in ("identity", "constant"):
        if not claims(name, shipped(name, leaks)):
            with refused("EPS-A153"):
                answer(name, door, shipped(name, leaks))
            continue
        status = answer(name, door, shipped(name, leaks))
        if name == "similarity":  # its limit is the smallest value allowed
            assert (status is Status.BEYOND) == (leaks == "constant")
        elif leaks == "identity":
            assert status is Status.BEYOND
        elif name == "worst_pair":  # attacks give no bound for pairs that they did not try
            assert status in (Status.OPEN, Status.NOT_TESTABLE, Status.WITHIN)
        elif name == "identifiers":
            assert status is Status.WITHIN, "a count covers every reader"
        else:
            assert status.passes


@pytest.mark.parametrize(("name", "door"), pairs("gate", "decide"))
def test_randomised_response_is_beyond_where_its_loss_is(name: str, door: str) -> None:
    """At 12 nats it releases the text, but no text with another word; its claim holds at every budget."""
    status = answer(name, door, of(name, "randomized_response", 12.0))
    if name in ("claim", "similarity", "which_unit"):
        assert status in (Status.WITHIN, Status.NOT_EXCEEDED, Status.OPEN)
    else:
        assert status is Status.BEYOND


@pytest.mark.parametrize("name", [name for name, _ in pairs("ask")])
def test_bounds_contain_what_is_known_of_randomised_response(name: str) -> None:
    """At .01 an interval is wrong: of the four known figures some one is with a probability of .04 at most."""
    rows = ask(build(name), shipped(name, "randomized_response"), trials=trials(name))
    n = len(of(name, "constant").pool.texts)
    own, other = (x / (math.exp(KNOWN) + n - 1) for x in (math.exp(KNOWN), 1.0))
    apart = own - other
    true = {
        "which_text": math.log((1 + apart) / (1 - apart)),
        "tail": max(0.0, own - math.exp(4) * other),
        "identifiers": own,
        "claim": 0.0,
        "worst_pair": math.log((1 + apart) / (1 - apart)),
    }.get(name)
    assert (rows["low"] <= rows["high"]).all()
    assert (rows["point"] >= 0).all(), "no figure here has negative values"
    if true is not None:
        assert (rows["low"] <= true + 1e-9).all()
    if name in ("which_text", "identifiers"):
        assert (rows["high"] >= true).all()


@pytest.mark.parametrize("name", [name for name, _ in pairs("compare")])
def test_who_tells_everything_leaks_more_than_who_tells_nothing(name: str) -> None:
    rows = compare(build(name), shipped(name, "identity"), shipped(name, "constant"), trials=trials(name))
    assert rows["first more"].sum() > 0 == rows["second more"].sum()
    assert (rows["p Holm"] < 0.01).all()


@pytest.mark.parametrize("name", [name for name, _ in pairs("reaudit")])
def test_a_mechanism_that_begins_to_tell_has_changed(name: str, tmp_path: Path) -> None:
    accepted = of(name, lambda text, rng: "nothing at all")
    tells = of(name, lambda text, rng: text)
    before = reaudit.accept({name: build(name)}, accepted, trials=trials(name))
    _, drifts = reaudit.reaudit(before, tells)
    assert {drift.verdict for drift in drifts} == {Change.BETTER if name == "similarity" else Change.WORSE}
    _, drifts = reaudit.reaudit(before, of(name, lambda text, rng: "nothing at all"))
    assert Change.WORSE not in {drift.verdict for drift in drifts}


@pytest.mark.parametrize("name", [name for name, _ in pairs("calibrate")])
def test_a_search_ends_and_contains_what_is_known(name: str) -> None:
    """A share of .5 of the identifiers survives where e^epsilon is 119."""
    target = {
        "identifiers": 0.5,
        "similarity": 0.6,
        "tail": 0.3,
        "attribute": 2.0,
        "authorship": 2.0,
        "linking": 1.0,
    }.get(name, 0.5)
    budget = {"attribute": 20_000, "authorship": 60_000}.get(name, 4000)
    search = Search(low=1.0, high=14.0, width=2.0, budget=budget)
    met = calibrate(build(name), of(name, "randomized_response", 1.0), target, search)
    assert met.status in list(SearchStatus)
    assert met.low < met.high
    if name == "identifiers":
        assert met.low <= math.log(119) <= met.high


@pytest.mark.parametrize(("name", "door"), pairs(*(door for door in DOORS if door != "pytest")))
def test_a_component_that_fails_has_no_answer(name: str, door: str) -> None:
    fails, count = of(name, Broken()), trials(name)
    way = {
        "ask": lambda: ask(build(name), fails, trials=count),
        "compare": lambda: compare(build(name), shipped(name, "constant"), fails, trials=count),
        "reaudit": lambda: reaudit.accept({name: build(name)}, fails, trials=count),
        "calibrate": lambda: calibrate(build(name), fails, 1.0, Search(low=1.0, high=2.0)),
    }.get(door, lambda: answer(name, door, fails))
    with pytest.raises((ZeroDivisionError, UserError)):
        way()


def test_the_fixture_of_pytest_asks_them_all(pytester) -> None:
    limits = {name: limit(name) for name, _ in pairs("pytest") if name not in ("claim", "similarity", "worst_pair")}
    pytester.makepyfile(
        f"""
        import polars as pl
        import pytest
        from epsilometer.auditing.question import question

        TABLE = pl.read_json({str(pytester.path / "texts.json")!r})

        @pytest.mark.parametrize(("name", "limit"), {list(limits.items())!r})
        @pytest.mark.parametrize("tells", [True, False])
        def test_it(assert_leaks_at_most, name, limit, tells):
            asked_for = question(name, {SETTINGS!r}.get(name))
            rewrite = (lambda text, rng: text) if tells else (lambda text, rng: "nothing")
            assert_leaks_at_most(rewrite, TABLE, limits=[(asked_for, limit)], budget=4000)
        """
    )
    table(400).write_json(pytester.path / "texts.json")
    pytester.runpytest_inprocess().assert_outcomes(passed=len(limits), failed=len(limits))


def test_the_page_has_the_table_of_combinations() -> None:
    from tests.support.combinations import table as combinations

    assert combinations() in (ROOT / "docs/concepts/questions.md").read_text()


def test_a_question_without_a_budget_is_not_searched() -> None:
    with refused("EPS-Q001"):
        calibrate(build("similarity"), shipped("similarity", "identity"), 0.5)
    assert not opens(find(QUESTIONS, "claim", "observe"), "calibrate")
    assert not opens(find(QUESTIONS, "tail", "observe"), "compare")
