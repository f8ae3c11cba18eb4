"""The loss of rounds of votes: equal to an enumeration of all noisy tables, and a bound where texts share cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from epsilometer.auditing.corpora.rounds_loss import RoundsLoss
from epsilometer.auditing.corpora.vote_loss import guess_loss, outcome_laws
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.shared.public_cells import on_grid
from tests.support.corpora import PUBLIC, TOPICS, vectors, words_as_vectors

NAMES = tuple(TOPICS)[:2]
EPSILON, WIDEST = 8.0, 6  # noise of rate 2 lies beyond +-6 in a cell with probability 1e-6


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    words_as_vectors(monkeypatch)


class TwoCandidates(PrivateEvolution):
    """The next candidates depend on which cell of the noisy table is largest, and often bring two texts together."""

    def evolved(self, candidates: list[str], table: np.ndarray, turn: int) -> list[str]:
        first = int(table.argmax()) % len(PUBLIC)
        return [PUBLIC[first], PUBLIC[(5 * first + 9) % len(PUBLIC)]]


def voted(texts: tuple[str, str], labels: tuple[int, int]) -> Callable[[list[str]], np.ndarray]:
    """A function from candidates to the votes [2, cells] of each text."""
    mechanism = TwoCandidates(resource=PUBLIC, labels=NAMES, m=2, rounds=2)
    rows = on_grid(vectors(None, list(texts)))
    return lambda candidates: np.array(
        [mechanism.counts((rows[i : i + 1], np.array([labels[i]])), candidates).ravel() for i in range(2)]
    )


def enumerated(votes: Callable[[list[str]], np.ndarray], level: float) -> tuple[float, float]:
    """Delta by all noisy tables of round 1 and all outcomes of round 2, and the share of round 2 in one cell."""
    mechanism = TwoCandidates(resource=PUBLIC, labels=NAMES, m=2, rounds=2)
    rate = float(mechanism.cell_noise(EPSILON).rate)
    first = [PUBLIC[0], PUBLIC[1]]
    here = votes(first)
    total = alike = 0.0
    later: dict[tuple[str, ...], np.ndarray] = {}
    for noise in product(range(-WIDEST, WIDEST + 1), repeat=4):
        table = here[0] + np.array(noise)
        logs = [-rate * float(np.abs(table - own).sum()) for own in here]
        first_law, other = (((1 - math.exp(-rate)) / (1 + math.exp(-rate))) ** 4 * math.exp(log) for log in logs)
        candidates = mechanism.evolved(first, table.reshape(2, 2), 1)
        if tuple(candidates) not in later:
            later[tuple(candidates)] = outcome_laws(votes(candidates), rate)
        laws = later[tuple(candidates)]
        alike += first_law * (laws.shape[1] == 1)
        total += float(np.maximum(first_law * laws[0] - math.exp(level) * other * laws[1], 0).sum())
    return total, alike


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_the_loss_of_texts_with_different_labels_is_that_of_an_enumeration(level: float) -> None:
    votes = voted((PUBLIC[0], PUBLIC[0]), (0, 1))
    delta, alike = enumerated(votes, level)
    assert alike == 0
    law = RoundsLoss.of(TwoCandidates(resource=PUBLIC, labels=NAMES, m=2, rounds=2), EPSILON)
    assert law.exact
    assert delta == pytest.approx(law.delta(level), abs=2e-5)


def test_the_loss_of_texts_that_share_a_cell_in_some_rounds_is_smaller() -> None:
    votes = voted((PUBLIC[0], PUBLIC[1]), (0, 0))
    delta, alike = enumerated(votes, 0.0)
    assert 0.05 < alike < 1
    law = RoundsLoss.of(TwoCandidates(resource=PUBLIC, labels=NAMES, m=2, rounds=2), EPSILON)
    assert delta < law.delta(0.0) - 1e-3


@pytest.mark.parametrize("neighbours", ["replaced", "added or removed"])
def test_one_round_is_one_table(neighbours: str) -> None:
    law = RoundsLoss.of(PrivateEvolution(resource=PUBLIC, rounds=1, neighbours=neighbours), 1.0)
    votes = np.eye(2, dtype=np.int64) if neighbours == "replaced" else np.array([[0], [1]])
    assert law.guess_loss() == pytest.approx(guess_loss(votes, law.rate))


@pytest.mark.parametrize("most", [1, 3])
def test_more_rounds_lose_less_on_average_and_never_more_than_epsilon(most: int) -> None:
    laws = [RoundsLoss.of(PrivateEvolution(resource=PUBLIC, rounds=rounds, most=most), 1.0) for rounds in (1, 2, 4)]
    losses = [law.guess_loss() for law in laws]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(0.5 if most == 1 else 1.0)
    for law in laws:
        assert law.law()[0].max() == pytest.approx(1.0)
        assert law.law()[1].sum() == pytest.approx(1.0)
        assert law.delta(1.0) == pytest.approx(0.0, abs=1e-12)
        assert law.exact is (most == 1)
