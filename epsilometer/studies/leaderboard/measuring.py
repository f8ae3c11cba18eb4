"""Measurement of a mechanism at a loss: its budgets, its losses and its worth over the splits of a data set."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.frontier import Frontier, success_of
from epsilometer.auditing.ceilings.share import BY_LATENTS
from epsilometer.auditing.claims.verdicts import describe
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core import tables
from epsilometer.core.attack import Embedded
from epsilometer.core.guarantees import WHOLE, Neighbours
from epsilometer.core.mechanism import Mechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import PUBLIC
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.studies.leaderboard.budgets import Budget, Curve, budgets, curve
from epsilometer.studies.leaderboard.by_law import Channel, channel
from epsilometer.studies.leaderboard.learning import Labelled, macro_f1
from epsilometer.studies.leaderboard.shared_budgets import Measured, SharedCurve, recall, shared
from epsilometer.studies.leaderboard.tables import (
    FRONTIERS,
    SETS,
    SIZES,
    SPLITS,
    TEST,
    TEXTS,
    TRAIN,
    parts_folder,
)
from epsilometer.text.words import words

PURE, APPROXIMATE, METRIC, NO_CLAIM = "pure epsilon", "epsilon and delta", "per word or metric", "none"
EQUAL_LENGTH = "only texts of equal length"
_TIMED = 100  # texts used to measure a mechanism's speed, once per cell
_TYPED = 200  # public texts used to test whether a mechanism has a channel (`by_law.channel`)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """The parts of a data set.

    texts:     all texts, schema `TEXTS`.
    vectors:   [n, d], their sentence embeddings of unit length.
    sets:      the sets of ten texts, schema `SETS`.
    frontiers: the ceilings over these sets, schema `FRONTIERS`.
    """

    texts: pl.DataFrame
    vectors: Array
    sets: pl.DataFrame
    frontiers: pl.DataFrame

    @classmethod
    def read(cls, dataset: str) -> Parts:
        """Read the parts that stage `leaderboard_parts` wrote."""
        folder = Path(parts_folder(dataset))
        read = {name: tables.read(folder / f"{name}.parquet", schema) for name, schema in _FILES.items()}
        return cls(read["parts"], np.load(folder / "vectors.npy").astype(np.float64), read["sets"], read["frontiers"])

    def of(self, part: str, block: int | None = None, label: str = "task") -> Labelled:
        """Return the labelled texts of a part: of one block, or of all blocks if `block` is None."""
        chosen = (self.texts["part"] == part) & (True if block is None else self.texts["block"] == block)
        places = np.flatnonzero(chosen.to_numpy())
        rows = self.texts[places]
        return Labelled(rows["text"].to_list(), rows[label].to_list(), self.vectors[places])

    @cached_property
    def rewritten(self) -> Labelled:
        """The texts that every mechanism rewrites, ordered by split."""
        return self.of(TRAIN)

    def blocks(self, first: int, count: int) -> NDArray[np.int64]:
        """Return the indices in `rewritten` of `count` consecutive blocks, from `first`; block 0 follows the last."""
        each = len(self.rewritten.texts) // SPLITS
        return np.concatenate([(first + i) % SPLITS * each + np.arange(each) for i in range(count)])


_FILES = {"parts": TEXTS, "sets": SETS, "frontiers": FRONTIERS}


@dataclass(frozen=True)
class Comparison:
    """A mechanism on the parts of a data set.

    stream:   the name of its random streams.
    measured: the folder shared with cells at other losses; None if nothing is shared.
    """

    parts: Parts
    mechanism: Mechanism
    stream: tuple[str | int, ...]
    measured: Path | None = None

    def rows(self, loss: float, ends: tuple[float, float]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Yield a row of `ROWS` and its rows of `FIGURES`, for each kind of sets and each kind of budget.

        The row has the columns from `lengths` on.
        loss: the average loss in nats; ends: the smallest and the largest budget to search.
        """
        sought = [
            (str(lengths), sets, losses.by, budget)
            for (lengths,), sets in self.parts.sets.group_by("lengths", maintain_order=True)
            for losses in [self._losses(str(lengths), sets)]
            for budget in budgets(losses, loss, ends)
        ]
        at_budgets = sorted({budget.epsilon for *_, budget in sought if budget.epsilon is not None})
        measured = shared(self.measured, at_budgets, self._measure)
        speed = self.words_a_second(min(measured)) if measured else None
        for lengths, sets, by, budget in sought:
            at = {"lengths": lengths, "budget": budget.kind}
            about = at | {"by": by, "reason": budget.reason}
            if budget.epsilon is None:
                yield about, []
                continue
            release = measured[budget.epsilon]
            cosines = release.by_block(sets)
            cosine = {"figure": "cosine", "by_law": False, "values": cosines.tolist()}
            row = about | {"words_a_second": speed} | self._of(budget, by, lengths, cosines)
            yield row, [{**at, **figure} for figure in (cosine, *release.figures)]

    def _losses(self, lengths: str, sets: pl.DataFrame) -> Curve:
        """Return the curve of the losses over the pairs of these sets, computed only from the texts of the pairs."""
        used, places = np.unique(np.array(sets["pair"].to_list(), np.int64), return_inverse=True)
        compared = self.parts.rewritten.take(used)
        embedded = Embedded(ENCODER, "float32", compared.vectors.astype(np.float32))
        stream = [*self.stream, lengths]
        losses = curve(self.mechanism, compared.texts, places.reshape(-1, 2), embedded, stream=stream)
        return losses if self.measured is None else SharedCurve(losses, self.measured / "losses" / lengths)

    def _measure(self, epsilons: Sequence[float]) -> dict[float, Measured]:
        """Rewrite all texts at these budgets and measure the rewrites.

        Work that does not depend on the budget is done once.
        """
        if self.measured is not None:
            recall(self.measured, self.mechanism, self.parts.rewritten.texts)
        rewrites = self._rewritten(self.parts.rewritten.texts, epsilons)
        public = self.parts.of(PUBLIC).texts[:_TYPED]
        return {
            epsilon: Release(self.parts, some, channel(self.mechanism, epsilon, public)).measured
            for epsilon, some in zip(epsilons, rewrites, strict=True)
        }

    def _rewritten(self, texts: Sequence[str], epsilons: Sequence[float]) -> list[Rewrites]:
        noises = [Noise.named(len(texts), *self.stream, "rewritten", epsilon) for epsilon in epsilons]
        return rewrite_all(self.mechanism, Job(texts, np.arange(len(texts)), epsilons, noises))

    def words_a_second(self, epsilon: float) -> float:
        """Return the speed in words per second, on texts that were not rewritten before, with all models loaded."""
        texts = self.parts.of(TEST, 0).texts[:_TIMED]
        begun = time.perf_counter()
        self._rewritten(texts, [epsilon])
        return sum(len(words(text)) for text in texts) / (time.perf_counter() - begun)

    def _of(self, budget: Budget, by: str, lengths: str, cosines: Array) -> dict[str, Any]:
        assert budget.epsilon is not None
        assert budget.lost is not None
        lost = budget.lost
        frontier, one_text = ceiling(self.parts, lengths)
        average = lost.average[1] if by == BY_LATENTS else sum(lost.average) / 2
        cosine = float(cosines.mean())
        share = share_of_possible(cosine, average, frontier, one_text)
        return {
            "epsilon": budget.epsilon,
            "average": average,
            "delta_at_4": sum(lost.delta) / 2,
            "pure": lost.pure,
            "worst": lost.worst,
            "claim": describe(self.mechanism.guarantee(budget.epsilon)),
            "claim_class": claim_class(self.mechanism, budget.epsilon),
            "cosine": cosine,
            "ceiling": float(frontier.ceiling(success_of(average))),
            "one_text": one_text,
            "share": None if np.isnan(share) else share,
        }


def ceiling(parts: Parts, lengths: str) -> tuple[Frontier, float]:
    """Return the ceiling over all sets of these lengths, and the mean cosine of the best single public text."""
    (row,) = parts.frontiers.filter(lengths=lengths).to_dicts()
    return Frontier(*(np.array(row[name]) for name in ("at", "upper", "lower"))), float(row["one_text"])


def claim_class(mechanism: Mechanism, epsilon: float) -> str:
    """Return the class within which a mechanism may be ranked, from the kind, unit and neighbours of its claim."""
    claim = mechanism.guarantee(epsilon)
    if claim is None:
        return NO_CLAIM
    if claim.granularity not in WHOLE or claim.metric is not None:
        return METRIC
    if claim.neighbours is not Neighbours.ANY:
        return EQUAL_LENGTH
    return APPROXIMATE if claim.delta or claim.curve is not None else PURE


@dataclass(frozen=True)
class Release:
    """Rewrites of all texts of the part TRAIN. channel: the mechanism's channel, which corrects labels, or None."""

    parts: Parts
    rewrites: Rewrites
    channel: Channel | None

    @cached_property
    def _vectors(self) -> Array:
        texts = list(self.rewrites.texts)
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return _encoder().encode(list(place))[[place[text] for text in texts]].astype(np.float64)

    @property
    def measured(self) -> Measured:
        """The cosine of each text and its release, and the figures."""
        return Measured(np.einsum("nd,nd->n", self.parts.rewritten.vectors, self._vectors), self.figures)

    @cached_property
    def figures(self) -> list[dict[str, Any]]:
        """Rows of `FIGURES` from `figure` on: F1 of the task, with and without the channel, and of the attribute."""
        task = Labelled(list(self.rewrites.texts), self.parts.rewritten.labels, self._vectors)
        tests = [self.parts.of(TEST, block) for block in range(SPLITS)]
        rows = []
        for size in SIZES:
            learnt = [task.take(self.parts.blocks(block, size)) for block in range(SPLITS)]
            rows += figures("task", learnt, tests)
            if self.channel is not None:
                corrected = [self._corrected(self.channel, block, size) for block in range(SPLITS)]
                rows += figures("task", corrected, tests, of=[len(each.texts) for each in learnt], by_law=True)
        return rows + self._inferred()

    def _corrected(self, channel: Channel, block: int, size: int) -> Labelled:
        places = self.parts.blocks(block, size)
        assert self.rewrites.units is not None
        labels = [self.parts.rewritten.labels[i] for i in places]
        types, classes, weights = channel.examples(self.rewrites.units.values[places], labels)
        vectors = _encoder().encode(list(channel.types)).astype(np.float64)
        return Labelled([channel.types[i] for i in types], classes, vectors[types], weights)

    def _inferred(self) -> list[dict[str, Any]]:
        """Return rows for inferring the attribute: trained on one split's releases, tested on the next split's."""
        labels = self.parts.of(TRAIN, label="attribute").labels
        if not any(label is not None for label in labels):
            return []
        released = Labelled(list(self.rewrites.texts), labels, self._vectors)
        learnt = [_with_label(released, self.parts.blocks(block, 1)) for block in range(SPLITS)]
        return figures("attribute", learnt, [learnt[(block + 1) % SPLITS] for block in range(SPLITS)])


def figures(
    figure: str,
    learnt: Sequence[Labelled],
    tests: Sequence[Labelled],
    *,
    of: Sequence[int] | None = None,
    by_law: bool = False,
) -> list[dict[str, Any]]:
    """Return a row per learner, with its macro F1 in each split.

    of: per split, the number of releases that `learnt` summarises; None if each text of `learnt` is one release.
    """
    values: dict[str, list[float]] = {}
    for training, test in zip(learnt, tests, strict=True):
        for learner, f1 in macro_f1(training, test):
            values.setdefault(learner, []).append(f1)
    count = min(of or [len(training.texts) for training in learnt])
    shown = {"figure": figure, "texts": count, "by_law": by_law}
    return [shown | {"learner": learner, "values": each} for learner, each in values.items()]


def _with_label(released: Labelled, places: NDArray[np.int64]) -> Labelled:
    return released.take([i for i in places.tolist() if released.labels[i] is not None])


@cache
def _encoder() -> Encoder:
    return Encoder(ENCODER)
