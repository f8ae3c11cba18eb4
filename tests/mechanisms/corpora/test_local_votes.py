"""Local votes: the protocols are unbiased, have the stated variance, and satisfy their epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from epsilometer.core.corpus_mechanism import PrivateCorpus
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.local_votes import _PROTOCOLS, LocalVotes, _subset, debiased, variance_of_one
from tests.support.corpora import LABELS, PUBLIC, TEXTS, TOPICS, words_as_vectors

COUNTS = np.array([300, 100, 0, 50, 0, 25, 25, 0, 0, 0])
TIMES = 400


@pytest.mark.parametrize("name", _PROTOCOLS)
def test_estimates_are_unbiased_and_have_the_stated_variance(name: str) -> None:
    """400 runs, seeded: means within 5 deviations of 10 counts; the variance of an empty cell within 5 of its own."""
    generator = np.random.default_rng(0)
    estimates = np.array([_PROTOCOLS[name](COUNTS, 1.0, generator) for _ in range(TIMES)])
    stated = COUNTS.sum() * variance_of_one(len(COUNTS), 1.0)[name]
    assert (np.abs(estimates.mean(0) - COUNTS) < 5 * np.sqrt(2 * stated / TIMES)).all()
    empty = estimates[:, COUNTS == 0].var()
    assert empty == pytest.approx(stated, rel=5 * math.sqrt(2 / TIMES))


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_a_set_is_at_most_e_to_the_epsilon_times_as_likely(epsilon: float) -> None:
    """P(S | x) is own / C(K - 1, d - 1) for x in S, (1 - own) / C(K - 1, d) else."""
    size, own, _ = _subset(12, epsilon)
    inside, outside = own / math.comb(11, size - 1), (1 - own) / math.comb(11, size)
    assert math.log(inside / outside) == pytest.approx(epsilon)


def test_the_best_protocol_is_used() -> None:
    few, many = variance_of_one(4, 4.0), variance_of_one(448, 1.0)
    assert min(few, key=few.__getitem__) == "subset selection"
    assert many["unary encoding"] < many["hadamard response"]
    _, variance = debiased(COUNTS, 1.0, np.random.default_rng(0))
    assert variance == COUNTS.sum() * min(variance_of_one(len(COUNTS), 1.0).values())


def test_a_release_of_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    words_as_vectors(monkeypatch)
    twin = LocalVotes(resource=PUBLIC, labels=tuple(TOPICS), m=4)
    assert twin.guarantee(1.0).neighbours is Neighbours.ANY
    release = twin.release(PrivateCorpus(TEXTS, None, LABELS), 12.0, Noise.named(1, "twin"))
    assert len(release.texts) == len(PUBLIC)
    assert release.labels
    assert np.mean([a == b for a, b in zip(release.labels, list(TOPICS) * 10, strict=True)]) > 0.9


def test_the_claim_is_of_the_unit_that_votes_once() -> None:
    """A second vote of a person would spend epsilon again, so it is refused."""
    of = {"resource": PUBLIC, "labels": tuple(TOPICS), "m": 4}
    assert LocalVotes(**of, unit="document").guarantee(1.0).granularity is Granularity.DOCUMENT
    assert LocalVotes(**of).guarantee(1.0).granularity is Granularity.USER
    with pytest.raises(ValidationError):
        LocalVotes(**of, most=2)
    people = ["ann"] * len(TEXTS)
    assert LocalVotes(**of).votes(PrivateCorpus(TEXTS, people, LABELS), 1.0, b"key").sum() == 1
