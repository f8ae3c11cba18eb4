"""Rewrites rarely refute the stated law of a sampler that follows it, and surely refute that of others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from epsilometer.auditing.exact_loss.attributes import attribute_losses, drawn_pairs
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.subject import subject
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged

WORDS = ("book", "cheapest", "flight", "from", "london", "monday", "paris", "show", "to", "train")
LEVEL = 1e-3
REWRITES = 400
draw = np.random.default_rng(0)
TEXTS = [" ".join(draw.choice(WORDS, 3 + i % 3)) for i in range(60)]
CLASSES = ["ab"[i % 2] for i in range(60)]


@dataclass(frozen=True)
class Response:
    """Randomised response of each word, by its law. shows: the words drawn, the source as "text" beside their units, or
    the "source" in their place; louder: by how many nats the sampler's epsilon exceeds the law's; without_units: none
    are handed out.
    """

    shows: str = "drawn"
    louder: float = 0.0
    without_units: bool = False
    releases = frozenset({"text", "units"})

    def laws(self, texts):
        def log_probabilities(words, epsilons):
            for epsilon in epsilons:
                law = np.zeros((len(words), len(WORDS)))
                law[np.arange(len(words)), words] = epsilon
                yield law - np.logaddexp(epsilon, np.log(len(WORDS) - 1))

        rows = Ragged.of([[WORDS.index(word) for word in text.split()] for text in texts])
        return Laws(rows, len(WORDS), log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        laws = self.laws(texts)
        (units,) = sample(laws, np.arange(len(texts)), [epsilon + self.louder], [noise])
        if self.shows == "source":
            units = laws.rows
        rows = np.split(units.values, units.offsets[1:-1])
        written = list(texts) if self.shows == "text" else [" ".join(WORDS[i] for i in row) for row in rows]
        return Rewrites(written, None if self.without_units else units)

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)


def p_value(mechanism: Response, seed: int = 0) -> float | None:
    of = subject(TEXTS, mechanism, 1.0, ["length"])
    of = replace(of, design=replace(of.design, seed=seed))
    (law,) = attribute_losses(mechanism, TEXTS, CLASSES, [1.0], seed=seed)
    pairs = np.resize(drawn_pairs(CLASSES, seed)[0], (REWRITES, 2))
    return law_p_value(of, TEXTS, pairs, law["upper"])


def test_who_follows_the_law_is_seldom_refuted() -> None:
    """Of 10 seeds at this level none, but with a probability of .01."""
    assert min(p_value(Response(), seed) for seed in range(10)) > LEVEL


@pytest.mark.parametrize(
    "mechanism",
    [Response(shows="source"), Response(shows="text"), Response(louder=0.5)],
    ids=["releases its source", "writes its source beside honest units", "draws by a larger epsilon"],
)
def test_who_departs_from_it_is_refuted(mechanism: Response) -> None:
    p = p_value(mechanism)
    assert p is not None
    assert p < 1e-6


def test_without_units_nothing_is_compared() -> None:
    assert p_value(Response(without_units=True)) is None
