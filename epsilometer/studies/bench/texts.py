"""Our own text mechanisms on vocabularies so small that every rewrite can be listed.

The true loss is a sum over all outputs, computed from each mechanism's documented law of words. Samples are the texts
that `rewrite` really returns, so a sampler that departs from its law is detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import find
from epsilometer.core.mechanism import Repeated
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Law
from epsilometer.text.vectors import WordVectors

WORDS = ("boston", "denver", "dallas", "monday", "friday")
PLACES = ((0.0, 0.2), (0.3, 0.9), (0.8, 0.1), (2.1, 1.6), (1.7, 2.2))
TEXTS = ("boston monday", "dallas friday")


def words(name: str, epsilon: float) -> KnownMechanism:
    """Return a word mechanism on two texts of two words, over five words with vectors of two dimensions."""
    with TemporaryDirectory() as folder:
        resource = Path(folder) / "words.npz"
        WordVectors(WORDS, np.array(PLACES)).save(resource)
        mechanism = find("mechanisms", name, "rewrite")(resource=resource)
        mechanism.laws(TEXTS)  # loads the word vectors before their folder is deleted
    return text_mechanism(name, mechanism, epsilon, [" ".join(pair) for pair in product(WORDS, repeat=2)])


def responses(epsilon: float) -> KnownMechanism:
    """Return randomised response over a list of five texts."""
    texts = (*TEXTS, "denver monday", "boston friday", "dallas monday")
    return text_mechanism("randomized_response", RandomizedResponse(resource=texts), epsilon, texts)


def text_mechanism(name: str, mechanism: Any, epsilon: float, outputs: Sequence[str]) -> KnownMechanism:
    """Return a text mechanism that has a law, at the pair TEXTS.

    outputs: all possible rewrites. `draw` returns indices into this list.
    """
    number = {text: i for i, text in enumerate(outputs)}

    @cache
    def law() -> Law:
        laws = mechanism.laws(TEXTS)
        chances, units = [], []
        for i in range(2):
            rows = np.asarray(laws.rows.row(i))
            (logs,) = laws.log_probabilities(rows, [epsilon])
            units.append(np.exp(np.asarray(logs)))
            whole = np.ones(1)
            for row in units[-1]:
                whole = np.outer(whole, row).ravel()
            chances.append(whole)
        return Law(chances[0], chances[1], parts=tuple(map(Law, *units)))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        texts = Repeated([TEXTS[which]], np.zeros(count, np.int64))
        noise = Noise.named(count, "truth", int(rng.integers(1 << 62)))
        rewrites = mechanism.rewrite(
            texts if getattr(mechanism, "takes_repeated", False) else list(texts), epsilon, noise
        )
        return np.fromiter(map(number.__getitem__, rewrites.texts), np.int64, count)

    claim = mechanism.guarantee(epsilon)
    (distance,) = mechanism.distance(TEXTS, np.array([[0, 1]]), epsilon) if hasattr(mechanism, "distance") else (1.0,)
    origin = "epsilometer"
    title = f"{name} epsilon={epsilon:g}"
    return KnownMechanism(
        title, origin, draw, lambda y: table(law().losses)(y), law=law, claim=claim.epsilon * float(distance)
    )
