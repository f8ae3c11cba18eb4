"""Which of two mechanisms leaks or retains more, for any question: errors, power, McNemar's test and refusals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import epsilometer
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.question import Gives, Observed, question
from epsilometer.auditing.results import comparison
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.trials.design import Design
from epsilometer.doors.compare import compare
from epsilometer.questions.identifiers import Identifiers
from epsilometer.questions.linking import Linking
from epsilometer.questions.which_text import WhichText
from tests.support.commands import call
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]
ATTACKS = ["lexical", "length"]
NAMES = Identifiers(kinds=["name"])


def keeps(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """The text with probability epsilon, else nothing."""
    return text if rng.random() < epsilon else "nothing"


def half(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """The text with probability 1/2 at every epsilon, each of which draws anew."""
    return text if rng.random() < 0.5 else "nothing"


def of(mechanism, epsilon: float, texts=TEXTS, **design) -> Subject:
    return subject(texts, mechanism, epsilon, ATTACKS, design=Design(temperature=0, **design))


def people(count: int = 60) -> pl.DataFrame:
    """People whose text says what is known of them."""
    rows = [
        (f"person {i} likes the song {i * 7 % 31}", f"likes the song {i * 7 % 31} person {i}") for i in range(count)
    ]
    return pl.DataFrame(rows, schema=["text", "facts"], orient="row")


def test_of_zeros_and_ones_it_is_mcnemars_test() -> None:
    """The trials are the same at both epsilons; .5 of them show the text of one, .9 that of the other."""
    first, second = of(keeps, 0.5), of(keeps, 0.9)
    left, right = ({each.name: each for each in WhichText().observe(replace(side), 400)} for side in (first, second))
    assert [t for t, _ in left["lexical"].of_texts] == [t for t, _ in right["lexical"].of_texts]
    rows = {row["figure"]: row for row in compare(WhichText(), first, second, 400).to_dicts()}
    assert [*rows] == ["strongest", "lexical", "length"]
    hits = [{name: each.values.astype(bool) for name, each in side.items()} for side in (left, right)]
    for name in ATTACKS:
        expected = comparison.compare(*(side[name] for side in hits))
        assert (rows[name]["first more"], rows[name]["second more"]) == (expected.first_only, expected.second_only)
        assert rows[name]["p value"] == expected.p_value
    assert rows["strongest"]["p value"] == comparison.compare_strongest(*hits).p_value
    assert rows["strongest"]["compared"] == "lexical, length"
    adjusted = comparison.holm([row["p value"] for row in rows.values()])
    assert [row["p Holm"] for row in rows.values()] == adjusted
    assert rows["strongest"]["finding"].startswith(
        "keeps=0.5 leaks less than keeps=0.9 under the attacks on both, p = "
    )


def test_shares_are_compared_by_their_signs() -> None:
    """Of each set of five people the share that is linked: which is larger counts, not by how much."""
    table, asked_for = people(), Linking(facts="facts", among=5, attacks=["bm25"])
    first, second = of(keeps, 0.2, table), of(keeps, 0.9, table)
    (left,), (right,) = (asked_for.observe(replace(side), 60) for side in (first, second))
    (row,) = compare(asked_for, first, second, 60).to_dicts()
    less, more = int((left.values < right.values).sum()), int((left.values > right.values).sum())
    assert (row["first more"], row["second more"], row["trials"]) == (more, less, 60)
    assert row["p value"] == stats.binomtest(more, more + less).pvalue < 1e-6
    assert row["finding"].startswith("keeps=0.2 leaks less than keeps=0.9 under linking: bm25, p = ")
    assert row["first high"] < row["second low"]


@pytest.mark.parametrize(
    ("asked_for", "texts", "trials"),
    [
        (WhichText(), TEXTS, 60),
        (NAMES, TEXTS[:10], 12),
        (Linking(facts="facts", among=5, attacks=["bm25"]), people(), 20),
    ],
)
def test_two_that_leak_alike_are_not_told_apart(asked_for, texts, trials: int) -> None:
    """One mechanism at two epsilons that it ignores, so that each draws anew.

    Its runs differ at level .1 in more than 10 of 30 runs with probability 9e-5 at most.
    """
    limit = 10
    assert stats.binom.sf(limit, 30, 0.1) < 1e-4
    wrong = 0
    for seed in range(30):
        table = compare(asked_for, *(of(half, at, texts, seed=seed, alpha=0.1) for at in (1.0, 2.0)), trials)
        wrong += table["p Holm"].min() <= 0.1
    assert wrong <= limit


def test_a_difference_that_must_show_is_found() -> None:
    """Of 59 names a shape .95 survive in one and .3 in the other: some of 18 shapes is missed with probability 3e-5."""
    table = compare(NAMES, of(keeps, 0.3), of(keeps, 0.95))
    rows = table.to_dicts()
    assert len(rows) == len(NAMES.tests(of(keeps, 0.3)))
    assert {row["trials"] for row in rows} == {59}
    for row in rows:
        assert row["finding"].startswith(f"keeps=0.3 leaks less than keeps=0.95 by {row['figure']}, p = ")
        assert row["p Holm"] <= 0.01
        assert row["first low"] < 0.3 < row["first high"]
        assert row["compared"] == row["figure"]


@dataclass(frozen=True)
class Scripted:
    """A question whose figures and outcomes follow from epsilon alone. smallest: True for a limit from below."""

    figures: dict[float, dict[str, list[float]]]
    smallest: bool = False
    options: int | None = None
    covers: Covers = Covers.EVERYONE
    trials: dict[float, str] = field(default_factory=dict)

    needs = frozenset()
    gives = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    usual = 40
    columns = ()

    def limit(self, of: Subject, allowed: float) -> Limit:
        return Limit(allowed, Scale("scripted", self.options), "a test", at_least=self.smallest)

    def observe(self, of: Subject, count: int) -> list[Observed]:
        observed = []
        for name, outcomes in self.figures[of.epsilon].items():
            values = np.resize(outcomes, count).astype(float)
            whole = {*values.tolist()} <= {0.0, 1.0}
            data = Hits(int(values.sum()), count) if whole else Means(values.tolist(), 1)
            evidence = Evidence(name, By.COUNT, Scale("scripted", self.options), data, covers=self.covers)
            texts = [(self.trials.get(of.epsilon, "text"), True)] * count
            observed.append(Observed(evidence, values, texts))
        return observed


def two(texts=TEXTS) -> tuple[Subject, Subject]:
    return of(keeps, 0.25, texts), of(keeps, 0.75, texts)


def test_of_what_is_kept_more_is_better() -> None:
    both = Scripted({0.25: {"cosine": [0.2, 0.4]}, 0.75: {"cosine": [0.3, 0.6]}}, smallest=True)
    (row,) = compare(both, *two()).to_dicts()
    assert (row["first more"], row["second more"], row["trials"]) == (0, 40, 40)
    assert row["finding"].startswith("keeps=0.75 preserves texts better than keeps=0.25 by cosine, p = ")
    same = Scripted({at: {"cosine": [0.2, 0.4]} for at in (0.25, 0.75)}, smallest=True)
    (row,) = compare(same, *two()).to_dicts()
    assert (row["p value"], row["finding"]) == (
        1.0,
        "no evidence that keeps=0.25 and keeps=0.75 preserve texts differently by cosine, p = 1",
    )


def test_a_figure_of_only_one_is_bounded_and_not_compared() -> None:
    both = Scripted({0.25: {"a": [0], "b": [1]}, 0.75: {"a": [1], "c": [0]}})
    compared, left, right = compare(both, *two()).to_dicts()
    assert (compared["figure"], compared["p value"]) == ("a", 2 * 0.5**40)
    assert compared["p Holm"] == compared["p value"], "rows that compare nothing are not corrected for"
    for row, name, end in ((left, "b", "first"), (right, "c", "second")):
        assert (row["figure"], row["compared"], row["p value"], row["p Holm"]) == (name, None, None, None)
        assert row["trials"] == 40
        assert [row[f"{other} low"] is None for other in ("first", "second")] == [end != "first", end != "second"]
    assert left["first low"] == pytest.approx((0.01 / 2) ** (1 / 40))
    assert left["finding"] == "b was measured only for keeps=0.25: 0.876 to 1"


def test_an_attack_below_chance_shows_no_lesser_leak() -> None:
    """One that always names the other of two knows the source."""
    figures = {0.25: {"a": [0], "b": [0, 1]}, 0.75: {"a": [0, 1], "b": [0, 1]}}
    rows = compare(Scripted(figures, options=2, covers=Covers.THESE), *two()).to_dicts()
    assert [(row["figure"], row["p value"]) for row in rows] == [("strongest", 1), ("a", 1), ("b", 1)]
    figures = {0.25: {"a": [0.1, 0.2]}, 0.75: {"a": [0.4, 0.6]}}
    (row,) = compare(Scripted(figures, options=2, covers=Covers.THESE), *two(), 200).to_dicts()
    assert (row["second more"], row["p value"]) == (200, 1)


def test_refusals() -> None:
    first, second = two()
    with refused("EPS-Q006"):
        compare(question("tail"), first, second)
    with refused("EPS-Q007"):
        compare(WhichText(), first, of(keeps, 0.75, TEXTS[1:]))
    with refused("EPS-Q007"):
        compare(WhichText(), first, second.seeded(1))
    with refused("EPS-A152"):
        compare(Linking(facts="facts"), first, second)
    for trials in ({0.25: "x", 0.75: "y"}, {0.25: "x"}):
        apart = Scripted({0.25: {"a": [0]}, 0.75: {"a": [1]}}, trials=trials)
        with refused("EPS-Q008"):
            compare(apart, first, second)
    with refused("EPS-A178", "1"):
        compare(WhichText(), first, second, 0)


def test_from_python_by_name_and_by_object() -> None:
    design = Design(temperature=0)
    sides = (keeps, 0.3), (keeps, 0.9)
    table = epsilometer.compare(TEXTS, *sides, question=NAMES, trials=20, design=design)
    expected = compare(NAMES, *(of(keeps, at) for at in (0.3, 0.9)), 20)
    assert table.drop("dataset").rows() == expected.rows()
    plain = epsilometer.compare(TEXTS, *sides, trials=100, design=design)
    named = epsilometer.compare(TEXTS, *sides, question="which_text", trials=100, design=design)
    assert plain.equals(named)
    assert plain.equals(
        epsilometer.compare(pl.DataFrame({"text": TEXTS}), *sides, question=WhichText(), trials=100, design=design)
    )
    with refused("EPS-P013"):
        epsilometer.compare(".", ("tem", 1), ("tem", 2), question="identifiers")


MINE = """
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Keeps:
    def rewrite(self, texts, epsilon, noise):
        stays = noise.uniforms()[:, 0] < epsilon
        return Rewrites([text if stay else "nothing" for text, stay in zip(texts, stays)])

    def guarantee(self, epsilon):
        return None
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keeps.py").write_text(MINE)
    people().write_csv("people.csv")
    sides = ("compare", "keeps.py=0.1", "keeps.py=1", "people.csv", "--json")
    kinds = ("--question", "identifiers", "--with", "identifiers.kinds=[name]", "--trials", 20)
    code, out, _ = call(capsys, *sides, *kinds)
    rows = json.loads(out)
    assert code == 0
    assert {row["dataset"] for row in rows} == {"people.csv"}
    assert all("keeps.py=0.1 leaks less than keeps.py=1 by identifiers: name" in row["finding"] for row in rows)
    assert not any(math.isnan(row["p Holm"]) for row in rows)
    links = ("--question", "linking", "--with", "linking.facts=facts", "--with", "linking.attacks=[bm25]")
    code, out, _ = call(capsys, *sides, *links, "--trials", 30)
    (row,) = json.loads(out)
    assert (code, row["figure"], row["trials"]) == (0, "linking: bm25", 30)
    for wrong, said in (
        ((*sides, "--question", "tail"), "no outcome for each trial"),
        ((*sides, "--with", "linking.facts=facts"), "not a setting of the questions asked"),
        ((*sides, "--question", "linkng"), "did you mean 'linking'"),
        (("compare", "keeps.py=0.1", "keeps.py=1", *kinds), "params.yaml does not exist"),
        (("compare", "keeps.py", "keeps.py=1", "people.csv", *kinds), "keeps.py needs an epsilon"),
    ):
        code, _, err = call(capsys, *wrong)
        assert (code, said in err) == (2, True), err
