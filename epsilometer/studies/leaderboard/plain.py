"""The rows of the leaderboard without a mechanism: clean texts, one sentence for all texts, and public texts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from epsilometer.corpora.parts import PUBLIC
from epsilometer.mechanisms.selection.shared.public_exemplars import central
from epsilometer.studies.leaderboard.learning import Labelled
from epsilometer.studies.leaderboard.measuring import Parts, figures
from epsilometer.studies.leaderboard.tables import SIZES, SPLITS, TEST, TRAIN

CLEAN, SENTENCE, PUBLIC_ONLY = "clean texts", "one sentence", "public only"
_EXEMPLARS = (64, 128)  # numbers of exemplars: an exemplar is the public text nearest to the centre of a cluster


def plain_rows(parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set without a mechanism, schema `PLAIN`."""
    tests = [parts.of(TEST, block) for block in range(SPLITS)]
    for size in SIZES:
        learnt = [parts.rewritten.take(parts.blocks(block, size)) for block in range(SPLITS)]
        yield from ({"row": CLEAN, **row} for row in figures("task", learnt, tests))
    each = [parts.rewritten.take(parts.blocks(block, 1)) for block in range(SPLITS)]
    yield from _of_one_sentence("task", each, tests)
    public = parts.of(PUBLIC)
    yield from ({"row": f"{PUBLIC_ONLY}, all", **row} for row in figures("task", [public] * SPLITS, tests))
    for count in (count for count in _EXEMPLARS if count <= len(public.texts)):
        chosen = [public.take(central(public.vectors, count, 0))] * SPLITS
        yield from ({"row": f"{PUBLIC_ONLY}, exemplars", **row} for row in figures("task", chosen, tests))
    yield from _inferred(parts)


def _inferred(parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield rows for inferring the attribute from clean texts, and for always guessing its most frequent class."""
    every = parts.of(TRAIN, label="attribute")
    if not any(label is not None for label in every.labels):
        return
    blocks = (parts.blocks(block, 1).tolist() for block in range(SPLITS))
    learnt = [every.take([i for i in block if every.labels[i] is not None]) for block in blocks]
    tests = [learnt[(block + 1) % SPLITS] for block in range(SPLITS)]
    yield from ({"row": CLEAN, **row} for row in figures("attribute", learnt, tests))
    yield from _of_one_sentence("attribute", learnt, tests)


def _of_one_sentence(figure: str, learnt: list[Labelled], tests: list[Labelled]) -> Iterator[dict[str, Any]]:
    """Yield rows for releasing one sentence for all texts: classifiers then always guess the most frequent label."""
    most_frequent = [Counter(sorted(part.labels)).most_common(1)[0][0] for part in learnt]
    nothing = np.zeros((1, learnt[0].vectors.shape[1]))
    sentences = [Labelled([""], [label], nothing) for label in most_frequent]
    of = [len(part.texts) for part in learnt]
    yield from ({"row": SENTENCE, **row} for row in figures(figure, sentences, tests, of=of))
