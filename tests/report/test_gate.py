"""The gate's sentences for every measure and form: counts and limits, including a user's own measures."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from epsilometer.auditing.question import Question, question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import FunctionMechanism
from epsilometer.doors.gate import Rules, exit_code, gate
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.report.gate import Decision, Failure, Result, as_json, html, junit, lines, markdown, sarif

TEXTS = [f"{who} wants {what} today" for who in ("anna", "boris", "clara") for what in ("tea", "milk", "rum")]


class Claims(FunctionMechanism):
    """A function that claims a multiple of epsilon for a text."""

    times = 1.0

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return Guarantee(self.times * epsilon, Granularity.DOCUMENT, Neighbours.ANY)


class Huge(Claims):
    """Claims more than 2,000 guesses can refute."""

    times = 60.0


class Overclaims(RandomizedResponse):
    """Claims half of what its law loses."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return Guarantee(0.5 * epsilon, Granularity.DOCUMENT, Neighbours.ANY)


def identity(text: str, epsilon: float, rng: Any) -> str:
    return text


SHOWN = subject(TEXTS, Claims(identity), 1.0, ["lexical"])
HIDDEN = subject(TEXTS, Claims(lambda text, epsilon, rng: "nothing"), 1.0, ["lexical"])
LAWFUL = subject(["yes", "no"], "randomized_response", 1.0, ["lexical"])
BROKEN = subject(TEXTS, Overclaims(resource=tuple(TEXTS)), 1.0, ["lexical"])


def decided(of: Subject, limits: dict[str | Path | Question, float]) -> Decision:
    rules = Rules([(question(name), allowed) for name, allowed in limits.items()], budget=8000)
    return Decision.of(of, rules.errors, gate(of, rules))


def read(decision: Decision) -> Result:
    """The JSON, as a reader of the schema reads it; every other form names each judged figure and its status."""
    data = Result.model_validate_json(as_json(decision))
    said = [markdown(decision), html(decision), junit(decision)]
    findings = json.loads(sarif(decision, "mine.py"))["runs"][0]["results"]
    suite = ElementTree.fromstring(junit(decision, 1.25))
    assert len(findings) == len(data.attacks) == int(suite.get("tests", 0))
    for row, finding in zip(data.attacks, findings, strict=True):
        assert all(row.attack in form for form in said)
        assert f"{row.status}: {row.attack}" in finding["message"]["text"]
        assert finding["kind"] == {"beyond": "fail", "open": "open"}.get(row.status, "pass")
    assert "inf" not in markdown(decision).replace("infer", "")
    return data


@pytest.mark.parametrize(("of", "code"), [(SHOWN, 1), (HIDDEN, 0)], ids=["identity", "constant"])
def test_a_word(of: Subject, code: int) -> None:
    decision = decided(of, {"which_unit": 1.0})
    (row,) = read(decision).attacks
    assert (exit_code(decision.verdict), row.measure, row.trials, row.successes) == (code, "unit", 100, None)
    assert (row.limit, row.at_least, row.least_found) == (1.0, False, None)
    _, seen, errors = lines(decision)[:3]
    assert "at most 73.1 of 100 are allowed, and 50 are chance (1.00 nats: " in seen
    assert ("100.0%" in seen) == (code == 1)
    assert ("a mechanism that exceeds the limit passes with probability 0.05" in errors) == (code == 0)


def test_a_worst_pair_by_attacks() -> None:
    decision = decided(SHOWN, {"worst_pair": 2.0})
    (row,) = read(decision).attacks
    assert (exit_code(decision.verdict), row.measure, row.attack) == (1, "worst_pair", "worst pair")
    assert row.successes == row.trials >= 2000
    assert row.least_found is not None
    assert row.least_found > 2
    assert f"{row.trials:,} of {row.trials:,} fresh trials" in lines(decision)[1]
    hidden = decided(HIDDEN, {"worst_pair": 2.0})
    assert exit_code(hidden.verdict) == 3
    assert "no upper bound" in lines(hidden)[2]


def test_a_worst_pair_by_law() -> None:
    decision = decided(LAWFUL, {"worst_pair": 1.5})
    (row,) = read(decision).attacks
    assert (exit_code(decision.verdict), row.status, row.trials, row.successes) == (0, "within", 1, None)
    assert row.point == pytest.approx(1, abs=0.03)
    assert row.source.endswith(", kept by its stated law, which 1,000 rewrites did not refute")
    beyond = decided(LAWFUL, {"worst_pair": 0.5})
    rows = {row.attack: row for row in read(beyond).attacks}
    assert "kept by" not in rows["worst pair: by its stated law"].source
    assert "worst pair" in lines(beyond)[1].split("also beyond: ")[1]


def test_a_claim() -> None:
    (row,) = read(decided(SHOWN, {"claim": 0})).attacks
    assert (row.measure, row.status, row.point, row.limit) == ("claim", "beyond", 1, 0)
    assert row.successes == row.trials == 2000
    assert row.source.startswith("the claim: ")
    violated = read(decided(BROKEN, {"claim": 0})).attacks
    assert (violated[0].attack, violated[0].status) == ("claim: by its stated law", "beyond")
    assert violated[0].trials == math.comb(len(TEXTS), 2)
    within = decided(LAWFUL, {"claim": 0})
    assert (exit_code(within.verdict), read(within).attacks[0].point) == (0, 0)
    assert "2,000 rewrites did not refute" in lines(within)[1]


def test_a_claim_that_no_guess_refutes_is_not_testable() -> None:
    huge = decided(subject(TEXTS, Huge(identity), 1.0, ["lexical"]), {"claim": 0})
    assert exit_code(huge.verdict) == 3
    assert lines(huge)[2].startswith("not testable")
    assert not lines(decided(HIDDEN, {"claim": 0}))[2].startswith("not testable")


def test_similarity() -> None:
    passed, beyond = decided(SHOWN, {"similarity": 0.5}), decided(HIDDEN, {"similarity": 0.5})
    for decision, code, point in ((passed, 0, 1.0), (beyond, 1, 0.0)):
        (row,) = read(decision).attacks
        assert (exit_code(decision.verdict), row.measure, row.trials, row.successes) == (code, "similarity", 200, None)
        assert (row.point, row.limit, row.at_least) == (point, 0.5, True)
        assert "at least 0.5 is required" in lines(decision)[1]
        assert "right in" not in lines(decision)[1]
        assert "at least 0.50" in markdown(decision)
    assert "falls below the limit passes with probability 0.05" in lines(passed)[2]


def test_several_questions_share_a_gate() -> None:
    decision = decided(SHOWN, {"which_text": 1.0, "which_unit": 1.0, "worst_pair": 1.0, "claim": 0, "similarity": 0.1})
    statuses = {row.measure: row.status for row in read(decision).attacks}
    assert statuses == dict.fromkeys(("loss", "unit", "worst_pair", "claim"), "beyond") | {"similarity": "within"}
    said = lines(decision)
    assert len([line for line in said if re.search(r"(allowed|chance|required) \(", line)]) == 5
    hidden = {row.measure: row.status for row in read(decided(HIDDEN, {"claim": 0, "worst_pair": 1.0})).attacks}
    assert hidden == {"claim": "open", "worst_pair": "open"}


OWN = """
from epsilometer.auditing.evidence.evidence import AtLeast, By, Computed, Covers, Evidence, Hits, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.question import Observed
from epsilometer.core.component import component

DATA = {"hits": Hits(30, 100), "means": Means([0.3] * 100), "worst": AtLeast(30, 100)}
DATA["law"] = Computed(0.2, 0.3, 0.0, 7)

@component
class Mine:
    data: str = "hits"
    least: bool = False
    options: int | None = None
    needs, gives, usual, columns = frozenset(), frozenset(), 100, ()

    def limit(self, of, allowed):
        return Limit(allowed, Scale("mine", options=self.options), "my limit", at_least=self.least)

    def tests(self, of):
        return ["my figure"]

    def amount(self, of, limit, budget, tests, *, errors):
        return 100

    def observe(self, of, count):
        scale = Scale("mine", options=self.options)
        return [Observed(Evidence("my figure", By.COUNT, scale, DATA[self.data], covers=Covers.EVERYONE))]
"""


@pytest.mark.parametrize(
    ("data", "least", "codes", "successes"),
    [
        ("hits", False, (1, 3, 0), 30),
        ("hits", True, (0, 3, 1), 30),
        ("means", False, (1, 1, 0), None),
        ("means", True, (0, 0, 1), None),
        ("worst", False, (1, 3, 3), 30),
        ("law", False, (1, 3, 0), None),
    ],
)
def test_a_question_of_a_users_file(
    tmp_path: Path, data: str, least: bool, codes: tuple[int, ...], successes: int | None
) -> None:
    """30 of 100, against limits below, near and above: Clopper and Pearson's bounds at .001 and .05 are .17 and .38."""
    (tmp_path / "mine.py").write_text(OWN)
    decisions = [
        decided(SHOWN, {question(tmp_path / "mine.py", {"data": data, "least": least}): allowed})
        for allowed in (0.1, 0.25, 0.6)
    ]
    assert tuple(exit_code(decision.verdict) for decision in decisions) == codes
    for decision, allowed in zip(decisions, (0.1, 0.25, 0.6), strict=True):
        (row,) = read(decision).attacks
        assert (row.attack, row.measure, row.source) == ("my figure", "mine", "my limit")
        assert (row.successes, row.limit, row.at_least) == (successes, allowed, least)
        said = lines(decision)[1]
        assert f"at {'least' if least else 'most'} {allowed:g} is " in said
        assert "nats" not in said
        assert "right in" not in said


def test_a_loss_of_a_users_file_is_in_nats(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    decision = decided(SHOWN, {question(tmp_path / "mine.py", {"options": 10}): 1.0})
    (row,) = read(decision).attacks
    assert row.point == pytest.approx(math.log(9 * 0.3 / 0.7))
    assert "of 100 guesses between two (1.35 nats); at most 73.1 of 100 are allowed" in lines(decision)[1]


def test_junit_has_words_for_what_passed_and_a_duration_where_nothing_was_decided() -> None:
    """A finite loss has its nats in brackets; 58.7 of 100 guesses are allowed at .35 nats."""
    decision = decided(HIDDEN, {"which_text": 0.35})
    (passed,) = ElementTree.fromstring(junit(decision)).iter("system-out")
    assert re.search(r"as in [\d.]+ of 100 guesses between two \([\d.]+ nats\); at most 58.7 of 100", str(passed.text))
    failed = ElementTree.fromstring(junit(Failure("mine", 1.0, "no texts"), 2.0))
    assert [(each.get("name"), each.get("value")) for each in failed.iter("property")] == [("duration", "2.0 s")]


def test_the_page_and_junit_say_what_was_judged_and_for_how_long_on_the_reports_scale() -> None:
    """The identity is always right: 100 of 100 guesses, where one nat allows 73.1."""
    decision = decided(SHOWN, {"which_text": 1.0})
    suite = ElementTree.fromstring(junit(decision, 1.25))
    facts = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert suite.get("time") == "1.250"
    rewrites = str(decision.verdict.trials)
    of_run = {"number of texts": str(len(TEXTS)), "privacy budget (epsilon)": "1", "seed": "0", "rewrites": rewrites}
    assert facts == of_run | {"duration": "1.2 s"}
    (failure,) = suite.iter("failure")
    said = "as in 100 of 100 guesses between two; at most 73.1 of 100 are allowed, and 50 are chance (1.00 nats: "
    assert said in str(failure.get("message"))
    assert said in lines(decision)[1], "the console says the same"
    page = html(decision, 61.0)
    assert "100 of 100 guesses (50 is chance, 73.1 is allowed)" in page
    assert " · ".join(f"{name}: {value}" for name, value in (of_run | {"duration": "61.0 s"}).items()) in page
    assert page.index("<table") < page.index(lines(decision)[2][:30].replace("&", "&amp;")), "what was seen, then why"
