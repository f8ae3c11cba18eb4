"""The internal embedding attack, on latents written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.internal import InternalAttack
from epsilometer.core.attack import Context, Selective
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Latents, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.mechanisms.latents.adept import ADePT
from tests.support.refusals import refused

TEXTS = ["east", "north", "far east", "nowhere"]
VECTORS = np.array([[1, 0], [0, 1], [9, 0.1], [0, 0]], np.float32)
CANDIDATES = np.array([[0, 1], [1, 2], [0, 2], [3, 1], [3, 0]])


class Compass:
    """A mechanism with given latents."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return VECTORS[[TEXTS.index(text) for text in texts]]

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return None


def guess(after: np.ndarray, mechanism: object = None) -> np.ndarray:
    count = len(after)
    before = VECTORS[CANDIDATES[:count, 0]]
    rewrites = Rewrites([""] * count, latents=Latents(before, after.astype(np.float32)))
    context = Context(TEXTS, mechanism or Compass(), 1.0, Noise.named(count, "a"))  # type: ignore[arg-type]
    return InternalAttack().guess(rewrites, CANDIDATES[:count], context)


def test_the_larger_cosine_wins_whatever_the_lengths() -> None:
    after = np.array([[1, 2], [3, 1], [100, 1.2], [1e-4, 1e-3], [-1, 0]])
    # For the last latent, the cosine 0 with the zero vector exceeds the cosine -1 with the east.
    assert guess(after).tolist() == [1, 1, 1, 1, 0]


def test_by_hand_on_random_latents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over trials, in parts of a few rows."""
    monkeypatch.setattr("epsilometer.core.latents._CELLS", 8)
    random = np.random.default_rng(0)
    candidates = np.array([random.choice(3, 2, replace=False) for _ in range(200)])
    after = random.normal(size=(200, 2)).astype(np.float32)
    rewrites = Rewrites([""] * 200, latents=Latents(VECTORS[candidates[:, 0]], after))
    guesses = InternalAttack().guess(rewrites, candidates, Context(TEXTS, Compass(), 1.0, Noise.named(200, "b")))
    for row, pair, slot in zip(after.astype(float), candidates, guesses, strict=True):
        cosines = [row @ VECTORS[c] / np.linalg.norm(row) / np.linalg.norm(VECTORS[c]) for c in pair]
        assert slot == np.argmax(cosines) or abs(cosines[0] - cosines[1]) < 2e-6


def test_a_latent_that_says_nothing_is_a_fair_coin() -> None:
    """2,000 ties: outside 5 standard deviations with probability 6e-7; fixed seed."""
    rewrites = Rewrites([""] * 2000, latents=Latents(np.zeros((2000, 2), np.float32), np.zeros((2000, 2), np.float32)))
    context = Context(TEXTS, Compass(), 1.0, Noise.named(2000, "ties"))
    guesses = InternalAttack().guess(rewrites, np.tile([0, 1], (2000, 1)), context)
    assert abs(guesses.mean() - 0.5) < 5 * 0.5 / np.sqrt(2000)


def test_it_applies_to_mechanisms_with_latents_alone() -> None:
    attack = InternalAttack()
    assert isinstance(attack, Selective)
    assert attack.applies(ADePT(resource=Path("any")))
    assert not attack.applies(Identity())
    assert not attack.applies(None)


def test_latents_that_do_not_fit_are_refused() -> None:
    with refused("EPS-C040", "2", "3", "2"):
        guess(np.ones((2, 3)))
    with refused("EPS-A001"):
        guess(np.ones((2, 2)), Identity())
    context = Context(TEXTS, Compass(), 1.0, Noise.named(1, "x"))
    with refused("EPS-C039"):
        InternalAttack().guess(Rewrites([""]), CANDIDATES[:1], context)
