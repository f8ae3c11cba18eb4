"""Rounds of votes and variations: the budget of all rounds, what a round may depend on, and a release."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from epsilometer.auditing.corpora.checks import for_the_curator
from epsilometer.auditing.corpora.one_text import OneText
from epsilometer.auditing.corpora.rounds_loss import RoundsLoss
from epsilometer.auditing.corpora.vote_loss import outcome_laws
from epsilometer.auditing.exact_loss.from_texts import chosen
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.trials.design import Design
from epsilometer.core.component import CORPORA, build, find
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise
from epsilometer.mechanisms.corpora.shared.public_cells import on_grid
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from tests.support.corpora import LABELS, PUBLIC, TEXTS, TOPICS, Writer, vectors, words_as_vectors
from tests.support.refusals import refused

NAMES = tuple(TOPICS)


@pytest.fixture(autouse=True)
def _no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    words_as_vectors(monkeypatch)
    monkeypatch.setattr(PrivateEvolution, "_writer", Writer())


def evolution(kind: type[PrivateEvolution] = PrivateEvolution, **settings: object) -> PrivateEvolution:
    return kind(**{"resource": PUBLIC, "labels": NAMES, "m": 8, **settings})


def corpus(topic: int = 0) -> PrivateCorpus:
    """60 texts of as many people; the first is of a topic."""
    first = f"mine {TOPICS[NAMES[topic]][0]} number 0"
    return PrivateCorpus([first, *TEXTS[1:]], None, [NAMES[topic], *LABELS[1:]])


def largest_log_ratio(mechanism: PrivateEvolution, epsilon: float, runs: int) -> float:
    """The largest ln of P(all noisy tables | one corpus) over P(... | its neighbour) that occurs in some runs."""
    ours, theirs = ((on_grid(vectors(None, c.texts)), labels(c)) for c in (corpus(0), corpus(1)))
    noise, worst = mechanism.cell_noise(epsilon), -math.inf
    for run in range(runs):
        generator = np.random.default_rng(run)
        candidates = [mechanism.public.texts[i] for i in mechanism.public.exemplars(8)]
        total = 0.0
        for turn in range(mechanism.rounds):
            first, second = mechanism.counts(ours, candidates), mechanism.counts(theirs, candidates)
            noisy = first + generator.integers(-3, 4, first.shape)  # every table is possible
            total += float((np.abs(noisy - second) - np.abs(noisy - first)).sum()) * float(noise.rate)
            candidates = mechanism.evolved(candidates, noisy, turn + 1)
        worst = max(worst, total)
    return worst


def labels(of: PrivateCorpus) -> np.ndarray:
    return np.array([NAMES.index(label or "") for label in of.labels or []])


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_all_rounds_together_keep_the_claim_and_use_it(rounds: int) -> None:
    assert largest_log_ratio(evolution(rounds=rounds), 1.0, 300) == pytest.approx(1.0, abs=1e-6)


class WholeBudgetEachRound(PrivateEvolution):
    def cell_noise(self, epsilon: float) -> CellNoise:
        return replace(super().cell_noise(epsilon), votes=self.most)


def test_a_budget_that_is_spent_in_each_round_is_caught() -> None:
    assert largest_log_ratio(evolution(WholeBudgetEachRound), 1.0, 300) > 1.5


def same(a: Release, b: Release) -> bool:
    return list(a.texts) == list(b.texts) and a.labels == b.labels and np.array_equal(a.weights, b.weights)


def test_one_round_is_the_histogram_of_votes() -> None:
    noise = Noise.named(1, "release")
    votes = VoteHistogram(resource=PUBLIC, labels=NAMES, m=8)
    assert same(evolution(rounds=1).release(corpus(), 1.0, noise), votes.release(corpus(), 1.0, noise))


def test_candidates_follow_from_noisy_tables_and_public_data_alone() -> None:
    mechanism, table = evolution(), np.arange(32).reshape(8, 4)
    first = [mechanism.public.texts[i] for i in mechanism.public.exemplars(8)]
    evolved = mechanism.evolved(first, table, 1)
    assert evolved == evolution().evolved(first, table, 1)
    assert evolved[0] == first[7]
    assert 2 <= len(set(evolved)) == len(evolved) <= 4  # short texts may have equal variations
    each = np.zeros((8, 4), np.int64)
    each[[5, 2, 6, 0], range(4)] = 9
    assert mechanism.evolved(first, each, 1)[:4] == [first[i] for i in (5, 2, 6, 0)]
    assert mechanism.evolved(first, table, 2)[1:] != evolved[1:]


def test_about_half_of_the_words_are_replaced() -> None:
    texts = [" ".join(f"word{i}" for i in range(200))] * 2
    first, second = evolution().variations(texts, Noise.named(2, "x"))
    replaced = [word.startswith("w0") for word in first.split()]
    assert 0.3 < np.mean(replaced) < 0.7  # false alarm below 1e-8 (binomial, 200 words)
    assert first != second


def test_a_release_has_texts_that_were_written_and_figures_for_the_curator() -> None:
    mechanism = evolution(m=8, rounds=3)
    release = mechanism.release(corpus(), 50.0, Noise.named(1, "release"))
    written = set(release.texts) - set(PUBLIC)
    assert written
    assert set(PUBLIC) <= set(release.texts)
    assert for_the_curator(mechanism, corpus(), release).f1 == pytest.approx(1.0, abs=0.1)


def exact_loss(view: OneText) -> float:
    """The exact guess loss at epsilon 2 between a text on music and one on food."""
    pairs = chosen(TEXTS[:2], 1, Design(temperature=0))
    return float(measure(view, TEXTS[:2], [2.0], pairs).losses.filter(pairs="all")["average"][0])


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_texts_with_different_labels_have_the_exact_loss_of_all_rounds(rounds: int) -> None:
    """One round is the table of `vote_histogram`; of R independent tables the outcomes are all combinations."""
    topics = dict(zip(TEXTS, LABELS, strict=True))
    mechanism = evolution(rounds=rounds)
    table = outcome_laws(np.eye(2, dtype=np.int64), 1 / rounds)
    joint = np.array([reduce(np.kron, [law] * rounds) for law in table])
    right = joint.max(0).sum() / 2
    loss = exact_loss(OneText(mechanism, 8, topics))
    assert loss == pytest.approx(math.log(right / (1 - right)), abs=1e-6)
    assert loss == pytest.approx(RoundsLoss.of(mechanism, 2.0).guess_loss(), abs=1e-6)
    if rounds == 1:
        votes = VoteHistogram(resource=PUBLIC, labels=NAMES, m=8)
        assert loss == pytest.approx(exact_loss(OneText(votes, 8, topics)), abs=1e-12)


def test_texts_that_may_share_a_cell_in_some_rounds_have_no_exact_loss() -> None:
    """The law of the first table would show too little: its cells may be parted in a later one."""
    view = OneText(evolution(rounds=2), 8, dict(zip(TEXTS, LABELS, strict=True)))
    with refused("EPS-A235"):
        view.laws([TEXTS[0], TEXTS[4]])
    with refused("EPS-A235"):
        OneText(evolution(rounds=2, labels=()), 8).laws(TEXTS[:2])


def test_gaussian_noise_is_refused() -> None:
    with refused("EPS-C015", "delta", "1e-06"):
        build(find(CORPORA, "private_evolution", "release"), {"resource": PUBLIC, "delta": 1e-6}, "settings")
