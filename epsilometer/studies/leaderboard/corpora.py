"""The F1 of classifiers trained on whole corpora under central differential privacy, and on local releases.

The mechanism `vote_histogram` releases a whole corpus: each private text votes for its nearest exemplar, one of the
public texts, and the votes get noise. There are rows for fixed epsilons. Each loss of the leaderboard
gets one more row, at the epsilon with this average loss over the leaderboard's sets of texts. The curator sees all
texts and is trusted; labels are private, too.

The local releases come from mechanisms that choose among the same public texts, at the budgets of the leaderboard, with
labels in the clear. They get the post-processing of whole corpora: each release votes for its nearest exemplar, and
these votes, minus the votes expected by chance, label all public texts. So rows of both kinds have the same learner.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core import tables
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import PUBLIC
from epsilometer.mechanisms.corpora.shared.post_processing import PostProcessing
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts, nearest, on_grid
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.studies.leaderboard.building import build
from epsilometer.studies.leaderboard.learning import SENTENCES, Labelled, macro_f1
from epsilometer.studies.leaderboard.measuring import PURE, Parts
from epsilometer.studies.leaderboard.params import LeaderboardParams
from epsilometer.studies.leaderboard.tables import (
    ANY,
    EQUAL,
    ROWS,
    SIZES,
    SPLITS,
    TAIL,
    TEST,
    public_path,
    rows_path,
)

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
_ALIKE = 1.01  # two budgets of one mechanism count as equal if their ratio is below this

Array = NDArray[np.float64]


def rows(params: LeaderboardParams, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield rows of schema `CORPORA` for a data set: whole corpora, then local releases."""
    votes = Votes(Parts.read(dataset), params.audit.seed)
    budgets: list[tuple[float | None, float]] = [(None, epsilon) for epsilon in EPSILONS]
    budgets += [(loss, epsilon) for loss in sorted(params.leaderboard.losses) if (epsilon := votes.meeting(loss))]
    for loss, epsilon in budgets:
        yield from votes.of(loss, epsilon)
    for cell, local in _local(params, dataset).items():
        yield from _taught(params, votes, cell, local)


@dataclass(frozen=True)
class Votes:
    """Private texts' votes for the nearest public exemplars of a data set. seed: the seed of the noise."""

    parts: Parts
    seed: int

    @cached_property
    def _public(self) -> Labelled:
        return self.parts.of(PUBLIC)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {text: i for i, text in enumerate(self._public.texts)}

    @cached_property
    def _vectors(self) -> dict[str, Array]:
        both = (self._public, self.parts.rewritten)
        return {text: row for part in both for text, row in zip(part.texts, part.vectors, strict=True)}

    @cached_property
    def mechanism(self) -> VoteHistogram:
        """The mechanism `vote_histogram` on the public part, with its labels."""
        texts = tuple(self._public.texts)
        public = PublicTexts.of(texts, lambda some: np.array([self._vectors[text] for text in some]), 0)
        return VoteHistogram(resource=texts, labels=tuple(sorted(set(self._public.labels)))).on(public)

    def _cells(self, vectors: Array, m: int) -> NDArray[np.int64]:
        public = self.mechanism.public
        return nearest(on_grid(vectors), public.vectors[public.exemplars(m)])

    def average(self, epsilon: float) -> float:
        """Return the average loss in nats over the pairs of the sets.

        Sets of texts of equal length are used if the data set has such sets, otherwise sets of any length. The best
        adversary guesses right with probability 1 / (1 + e^(-epsilon / 2)) if the two texts vote for different
        exemplars or labels (`auditing.corpora.vote_loss`), and with probability 1/2 otherwise.
        """
        right = self._differing(epsilon) * (1 / (1 + math.exp(-epsilon / 2)) - 0.5) + 0.5
        return math.log(right / (1 - right))

    def _differing(self, epsilon: float) -> float:
        """Return the share of the pairs whose two texts vote for different exemplars or have different labels."""
        sets = self.parts.sets
        lengths = EQUAL if EQUAL in sets["lengths"] else ANY
        pairs, texts = np.array(sets.filter(lengths=lengths)["pair"].to_list()), self.parts.rewritten
        each = len(texts.texts) // SPLITS
        cells, labels = self._cells(texts.vectors, self.mechanism.number(each, epsilon)), np.array(texts.labels)
        first, second = pairs.T
        return float(((cells[first] != cells[second]) | (labels[first] != labels[second])).mean())

    def meeting(self, loss: float) -> float | None:
        """Return the epsilon at which the average loss is `loss` nats; None if no epsilon up to 40 reaches it."""
        low, high = 0.0, 40.0
        if self.average(high) < loss:
            return None
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.average(middle) >= loss else (middle, high)
        return high

    def of(self, loss: float | None, epsilon: float) -> Iterator[dict[str, Any]]:
        """Yield a row for each number of private texts, with the F1 of each kind of post-processing.

        "plain" trains on the released exemplars, "spread" on all public texts with labels from the votes.
        """
        about = {"mechanism": "vote_histogram", "loss": loss, "epsilon": epsilon, "average": self.average(epsilon)}
        for size in SIZES:
            values: dict[PostProcessing, list[float]] = {"plain": [], "spread": []}
            for block in range(SPLITS):
                private = self.parts.rewritten.take(self.parts.blocks(block, size))
                corpus = PrivateCorpus(private.texts, None, private.labels)
                noise = Noise.named(1, self.seed, "leaderboard", "corpora", epsilon, size, block)
                table = self.mechanism.noisy_votes(corpus, epsilon, noise).astype(np.float64)
                variance = self.mechanism.cell_noise(epsilon).variance
                for after, scores in values.items():
                    scores.append(self._f1(self._after(after).labelled(table, variance), block))
            yield about | {"whole": True, "texts": len(private.texts)} | {str(name): f1 for name, f1 in values.items()}

    def _after(self, after: PostProcessing) -> VoteHistogram:
        labels = self.mechanism.labels
        texts = tuple(self._public.texts)
        return VoteHistogram(resource=texts, labels=labels, after=after).on(self.mechanism.public)

    def _f1(self, release: Release, block: int) -> float:
        labels = release.labels or ()
        vectors = np.array([self._vectors[text] for text in release.texts]).reshape(len(labels), -1)
        return self.head(Labelled(list(release.texts), list(labels), vectors, release.weights), block)

    def head(self, learnt: Labelled, block: int) -> float:
        """Return the macro F1, on the clean test texts of a split, of a head trained on `learnt`.

        The F1 is 0 if `learnt` is empty.
        """
        return dict(macro_f1(learnt, self.parts.of(TEST, block)))[SENTENCES] if learnt.texts else 0.0

    def spread(self, releases: Labelled, block: int) -> float:
        """Return the macro F1 of a head trained on all public texts, with labels from the votes of local releases."""
        n, labels = len(releases.texts), self.mechanism.labels
        m = self.mechanism.number(n, 1.0)
        places, table = {label: i for i, label in enumerate(labels)}, np.zeros((m, len(labels)))
        usable = [i for i, label in enumerate(releases.labels) if label in places]
        cells = self._cells(releases.vectors[usable], m)
        np.add.at(table, (cells, np.array([places[releases.labels[i]] for i in usable], np.int64)), 1)
        by_chance = np.outer(table.sum(1), table.sum(0)) / table.sum()
        return self._f1(self.mechanism.labelled(table - by_chance + n / table.size, n / table.size), block)


def _local(params: LeaderboardParams, dataset: str) -> dict[str, dict[float, float]]:
    """Return the budgets of the local mechanisms that use the same public texts and claim a pure epsilon.

    The outer keys name one cell per mechanism. The inner dictionaries map each budget to its average loss.
    """
    rows: dict[str, tuple[str, dict[float, float]]] = {}
    for name, cell in params.leaderboard_cells.items():
        path = rows_path(name)
        if cell.dataset != dataset or cell.resource != public_path(dataset) or not path.is_file():
            continue
        table = tables.read(path, ROWS).filter(~pl.col("control"), budget=TAIL, claim_class=PURE)
        lengths = EQUAL if EQUAL in table["lengths"] else ANY
        budgets = rows.setdefault(cell.mechanism, (name, {}))[1]
        for epsilon, average in (
            table.filter(lengths=lengths).drop_nulls("epsilon").select("epsilon", "average").iter_rows()
        ):
            if not any(1 / _ALIKE < epsilon / other < _ALIKE for other in budgets):
                budgets[epsilon] = average
    return {name: budgets for name, budgets in rows.values() if budgets}


def _taught(
    params: LeaderboardParams, votes: Votes, cell: str, budgets: dict[float, float]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each budget and number of texts of a cell, with F1 before and after post-processing."""
    built, of, parts = build(params, cell), params.leaderboard_cells[cell], votes.parts
    texts, stream = (
        parts.rewritten.texts,
        (params.audit.seed, params.audit.round, "leaderboard", of.dataset, of.mechanism),
    )
    epsilons = sorted(budgets)
    noises = [Noise.named(len(texts), *stream, "rewritten", epsilon) for epsilon in epsilons]
    encoder = Encoder(ENCODER)
    released = rewrite_all(built, Job(texts, np.arange(len(texts)), epsilons, noises))
    for epsilon, rewrites in zip(epsilons, released, strict=True):
        distinct = list(dict.fromkeys(rewrites.texts))
        vector = dict(zip(distinct, embed(encoder, distinct), strict=True))
        whole = Labelled(
            list(rewrites.texts), parts.rewritten.labels, np.array([vector[text] for text in rewrites.texts])
        )
        for size in SIZES:
            each = [whole.take(parts.blocks(block, size)) for block in range(SPLITS)]
            yield {
                "mechanism": of.mechanism, "whole": False, "epsilon": epsilon, "average": budgets[epsilon],
                "texts": len(each[0].texts),
                "plain": [votes.head(some, block) for block, some in enumerate(each)],
                "spread": [votes.spread(some, block) for block, some in enumerate(each)],
            }  # fmt: skip
