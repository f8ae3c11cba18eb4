"""Learning with a known law: estimated counts behind the releases, and which mechanisms have a channel."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.mechanisms.controls.coin import Coin
from epsilometer.mechanisms.selection.exemplars import Exemplars
from epsilometer.studies.leaderboard.by_law import Channel, channel

PUBLIC = tuple(f"{verb} {thing}" for verb in ("play", "book", "find") for thing in ("a song", "a table", "the rain"))


def test_counts_are_those_behind_the_releases() -> None:
    """Where frequencies are those that the law expects, the counts are exactly those of the sources."""
    law = np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    sources = np.array([[50, 0], [0, 100], [30, 20]])
    expected = (law.T @ sources).astype(int)
    outputs, classes = (np.repeat(index.ravel(), expected.ravel()) for index in np.indices(expected.shape))
    counts = Channel(["a", "b", "c"], law).counts(outputs, classes, 2)
    np.testing.assert_allclose(counts, sources, atol=0.5)
    assert counts.sum() == pytest.approx(len(outputs))
    assert (counts >= 0).all()


def test_a_class_that_noise_alone_shows_gets_next_to_no_weight() -> None:
    law = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    generator = np.random.default_rng(0)
    outputs = np.array([generator.choice(4, p=law[0]) for _ in range(4000)])
    types, labels, weights = Channel(list("abcd"), law).examples(outputs, ["yes"] * 4000)
    assert {*labels} == {"yes"}
    assert weights[types == 0].sum() > 3700  # of 4,000; only 2,800 releases have this output


def test_exemplars_have_a_channel_and_the_coin_has_none() -> None:
    chosen = channel(Exemplars(resource=PUBLIC, m=4), 2.0, PUBLIC)
    assert chosen is not None
    np.testing.assert_allclose(chosen.law.sum(axis=1), 1)
    assert (chosen.law.argmax(axis=1) == np.arange(4)).all()
    assert channel(Coin(resource=PUBLIC), 1.0, PUBLIC) is None
    assert channel(Exemplars(resource=PUBLIC, m=4, law="exponential"), 2.0, PUBLIC) is None  # by a text's distances
