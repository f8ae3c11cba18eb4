"""Linking attacks find a person's rewrite from side information, and are at chance if the information is useless."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from epsilometer.auditing.conformance.linking import check_linking
from epsilometer.auditing.conformance.named import of_attack
from epsilometer.core.attack import choose
from epsilometer.core.randomness import Noise

FALSE_ALARM = 1e-9
TOWNS = ("paris", "berlin", "oslo", "madrid", "rome", "vienna", "prague", "lisbon", "athens", "dublin")
JOBS = ("baker", "nurse", "pilot", "teacher", "farmer", "judge", "plumber", "actor", "dentist", "tailor")
FACTS = [[f"They live in {town}.", f"They work as a {job}."] for town, job in zip(TOWNS, JOBS, strict=True)]
REWRITES = [f"As a {job} I was glad of the trains in {town}" for town, job in zip(TOWNS, JOBS, strict=True)]


def attack(name: str):
    if name == "dense":
        from epsilometer.attacks.linking.dense import Dense

        return Dense()
    from epsilometer.attacks.linking.bm25 import BM25

    return BM25()


@pytest.mark.parametrize("name", ["bm25", "dense"])
def test_it_links_by_facts_and_is_at_chance_without_any(name: str) -> None:
    linker, order = attack(name), np.random.default_rng(0).permutation(len(REWRITES))
    scores = linker.link(FACTS, [REWRITES[i] for i in order])
    assert (order[scores.argmax(axis=1)] == np.arange(len(FACTS))).all()
    silent = np.asarray(linker.link(FACTS * 20, ["nothing is left of it"] * 200), float)
    right = int((choose(silent, Noise.named(200, "test")) == np.arange(200)).sum())
    assert right <= binom.isf(FALSE_ALARM, 200, 1 / 200)


@pytest.mark.parametrize("name", ["bm25", "dense"])
def test_it_keeps_the_rules(name: str) -> None:
    assert [check for check in of_attack(name, {}) if check.problem] == []


def test_bm25_is_the_published_sum() -> None:
    """Two rewrites, of three words and of one; "a" stands twice in the first and nowhere else."""
    scores = attack("bm25").link([["A b"]], ["a a c", "b"])
    idf, mean = np.log1p((2 - 1 + 0.5) / 1.5), 2.0
    first = idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / mean))
    second = idf * 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 1 / mean))
    assert scores.tolist() == [[pytest.approx(first), pytest.approx(second)]]
    assert attack("bm25").link([["a"]], ["", " . "]).tolist() == [[0, 0]]


class _Places:
    def link(self, facts, rewrites):
        return np.eye(len(facts), len(rewrites))


class _Backwards:
    def link(self, facts, rewrites):
        return -attack("bm25").link(facts, rewrites)


class _Crowd:
    def link(self, facts, rewrites):
        return attack("bm25").link(facts, rewrites) * len(facts)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (_Places(), "scores depend on facts and rewrites, not on their order"),
        (_Places(), "for rewrites without information, links are right by chance"),
        (_Backwards(), "a rewrite that equals a fact has that fact's largest score"),
        (_Crowd(), "facts about other people do not change a score"),
    ],
)
def test_what_breaks_a_rule_is_named(broken: object, rule: str) -> None:
    assert rule in [check.rule for check in check_linking(broken) if check.problem]  # type: ignore[arg-type]
