"""CluSanT: samples a cluster of words, then a word of that cluster (Awon, Lu, Potka and Thomo, NAACL 2025).

In plain words it replaces each word by another, first choosing a group of similar words at random and then a word of
that group.

For a word x in cluster c(x), a cluster c and a word y in c are sampled with probabilities

    P(c | x) ~ exp(-epsilon_1 / 2 ||K m_c - K m_c(x)|| / s),   where m_c is the mean vector of cluster c,
    P(y | x, c) ~ exp(-epsilon_2 / 2 ||x - y|| / D_c),         where D_c is the largest distance within cluster c.

K is the setting `stretch`. With `privacy: standard`, s is the largest distance between two of the K m_c; with `metric`,
s = 1. As published, epsilon_1 = epsilon_2 = epsilon.

Standard: both scores (a distance divided by s or by D_c) have a range of at most 1, since within c the distances from
any x differ by at most D_c. So the loss is at most epsilon_1 in the first step and epsilon_2 in the second, 2 epsilon
together as published. The loss between two words of one cluster is at most epsilon, since their first steps have the
same law. The published claim is epsilon for any two words. It is false: between two of the first 1,000 embedded words
the loss is 4.45 nats at epsilon 4, and between the worst two words it can be almost 2 epsilon. The corrected form
(default) spends epsilon_1 = epsilon_2 = epsilon / 2.

Metric: the loss is at most epsilon K ||m_c(x) - m_c(x')|| in the first step and epsilon ||x - x'|| / D_c in the second.
The claim is epsilon (K ||m_c(x) - m_c(x')|| + ||x - x'||), without D_c. The loss of the published form can exceed this
claim in a cluster with D_c < 1. Such clusters are frequent for vectors of length 1. The corrected form omits D_c, and
satisfies the claim by the triangle inequality.

Clusters are made as in the reference code, until every word has a cluster: a random word that has no cluster yet forms
a cluster with the nearest words that have none. A cluster has V / `clusters` words; the last cluster may be smaller.
`file` sets other clusters, in the JSON format of the reference code: an object of lists of words. In a cluster of one
word or of equal vectors, D_c is 0, and all words are equally probable.

Assumptions: the claim is per word; texts are neighbours if they have the same number of words; vocabulary, vectors and
clusters are public; every word can replace every word.

Departures: the reference code (AwonSomeSauce/CluSanT 07c73be) makes clusters without a seed, and caches them in a file.
The name of that file depends only on the number of clusters and the file of vectors. Here `seed` determines the
clusters. With D_c = 0 the reference code divides 0 by 0, and fails if the cluster is sampled. The reference code
lower-cases words and replaces only annotated places and organisations. Here every word is replaced, and a word without
a cluster is first replaced by a fixed word (`shared/vocabulary.py`). The reference code returns nothing for a word
without a cluster, and its script writes XXXXX. `released_code: true` also writes XXXXX for such words, and so reveals
where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, log_softmax, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words as words_of

MARK = "xxxxx"  # written by the reference code's script for a word without a cluster
_ROWS = 64  # words whose distances to a cluster are in memory at a time


@component
class CluSanT(WordVectorMechanism, OneOfGrid):
    """The CluSanT mechanism.

    privacy:       `standard`, or `metric` for a claim that grows with distances.
    clusters:      approximate number of clusters.
    file:          a JSON file of clusters to use instead; None: clusters are made.
    seed:          seed of the clustering.
    stretch:       K, the factor of the clusters' mean vectors.
    as_published:  True to spend the whole epsilon in each step, and divide by D_c also with `metric`.
    released_code: True to also replace a word without a cluster by a mark.
    """

    privacy: Literal["standard", "metric"] = "standard"
    clusters: Annotated[int, Field(ge=1)] = 40
    file: Path | None = None
    seed: int = 0
    stretch: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    as_published: bool = False
    released_code: bool = False

    @model_validator(mode="after")
    def _only_released(self) -> CluSanT:
        if self.released_code and not (
            self.as_published and self.privacy == "standard" and self.layout == "normalised"
        ):
            raise ValueError(
                "released_code: true marks words without a cluster; it needs as_published: true, privacy: standard and "
                "layout: normalised"
            )
        return self

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of the words that have a cluster."""
        everything = super().vectors
        if self.file is None:
            return everything
        index = {word: number for number, word in enumerate(everything.words)}
        numbers = [index[word] for word in self._listed if word in index]
        if len(numbers) < 2:
            raise UserError(
                f"{self.file} contains {len(numbers)} words of {self.resource}; list at least two", "EPS-M079"
            )
        return WordVectors([everything.words[i] for i in numbers], everything.vectors[numbers])

    @cached_property
    def _listed(self) -> dict[str, int]:
        """The index of the cluster of each word in the file."""
        assert self.file is not None
        if not self.file.is_file():
            raise UserError(
                f"there is no file {str(self.file)!r}; give a JSON file of lists of words by name", "EPS-M080"
            )
        try:
            lists = json.loads(self.file.read_text("utf-8"))
            named = [(word.lower(), number) for number, words in enumerate(lists.values()) for word in words]
        except (ValueError, AttributeError, TypeError) as error:
            raise UserError(
                f"{self.file} is not a JSON object of lists of words; write one, such as {{'a': ['b']}}", "EPS-M081"
            ) from error
        listed = dict(named)
        if len(listed) < len(named):
            raise UserError(
                f"{self.file} lists {len(named) - len(listed)} words twice; a word has one cluster", "EPS-M082"
            )
        return listed

    @cached_property
    def _layout(self) -> _Clusters:
        vectors = self.vectors
        if self.file is not None:
            _, group = np.unique([self._listed[word] for word in vectors.words], return_inverse=True)
        else:
            group = drawn_clusters(vectors, self.clusters, self.seed)
        return _Clusters.of(vectors, group)

    @cached_property
    def output_texts(self) -> Sequence[str]:
        """The words that have a cluster; with the released code also the mark."""
        return [*self.vocabulary.words, MARK] if self.released_code else self.vocabulary.words

    @property
    def inputs(self) -> Sequence[str]:
        """Test texts of one word: the words that have a cluster; with the released code also a word that has none."""
        return self.output_texts

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, in the metric form times the sum of two distances; the number of words is not protected."""
        return self.claim(epsilon, None if self.privacy == "standard" else "distance of words and of clusters")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the number of differing words, for `metric` a sum of distances; infinite if lengths differ."""
        if self.released_code:
            every = Vocabulary(list(dict.fromkeys(word for text in texts for word in words_of(text))))
            return every.distance(texts, pairs, np.not_equal)
        if self.privacy == "standard":
            return self.vocabulary.distance(texts, pairs, np.not_equal)
        layout = self._layout

        def between(left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.float64]:
            apart = layout.apart[layout.group[left], layout.group[right]]
            return self.stretch * apart + self.vectors.between(left, right)

        return self.vocabulary.distance(texts, pairs, between)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, one row per word with a cluster; with the released code, one more row for other words."""
        size = len(self.vocabulary)

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            word = rows < size
            distances = self.vectors.distances(rows[word])
            for epsilon in epsilons:
                law = np.full((len(rows), len(self.output_texts)), -np.inf)
                law[np.ix_(word, np.arange(size))] = self._word_laws(rows[word], distances, epsilon)
                law[~word, -1] = 0
                yield law

        return Laws(self._encode(texts), len(self.output_texts), log_probabilities, table=self._release_table)

    def _word_laws(
        self, words: NDArray[np.integer], distances: NDArray[np.float64], epsilon: float
    ) -> NDArray[np.float64]:
        """Return the log-probabilities [n, V] of all words y for words [n]. distances: [n, V], to all words y."""
        layout, standard = self._layout, self.privacy == "standard"
        budget = epsilon / 2 if standard and not self.as_published else epsilon
        largest = layout.apart.max() if standard else 1 / self.stretch
        of_cluster = log_softmax(-budget / 2 * layout.apart / (largest or 1))[layout.group[words]]
        scores = -budget / 2 * distances[:, layout.order]
        if standard or self.as_published:
            wide = layout.diameters > 0
            scores *= np.repeat(np.where(wide, 1 / np.where(wide, layout.diameters, 1), 0), layout.sizes)
        total = np.logaddexp.reduceat(scores, layout.starts, axis=1)
        law = np.empty_like(scores)
        law[:, layout.order] = scores + np.repeat(of_cluster - total, layout.sizes, axis=1)
        return law

    def _encode(self, texts: Sequence[str]) -> Ragged:
        """Return the law rows of each text's words."""
        private = self.vocabulary.encode(texts)
        if not self.released_code:
            return private
        listed = [word in self.vocabulary.index for text in texts for word in words_of(text)]
        return Ragged(np.where(listed, private.values, len(self.vocabulary)), private.offsets)

    @cached_property
    def _outputs(self) -> Vocabulary:
        return Vocabulary(self.output_texts)

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the sampled words joined by single spaces, or in the source's layout."""
        return self._outputs.decode(units) if self.released_code else super().write(texts, units)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Words are sampled by inverse CDF, in a publication exactly."""
        outputs = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [self.written(texts, units) for units in outputs]


class _Clusters(NamedTuple):
    """C clusters of V words.

    group:         [V], the cluster of each word.
    order:         [V], the words ordered by cluster.
    starts, sizes: [C], start and size of each cluster in `order`.
    apart:         [C, C], distances of the clusters' mean vectors.
    diameters:     [C], largest distance within each cluster.
    """

    group: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    apart: NDArray[np.float64]
    diameters: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: WordVectors, group: NDArray[np.int64]) -> _Clusters:
        """Return the clusters of these groups. group: [V], numbered from 0 without gaps."""
        order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
        starts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(vectors.exact[order], starts, axis=0) / sizes[:, None]
        apart = np.array([np.linalg.norm(means - mean, axis=1) for mean in means])
        diameters = np.zeros(len(sizes))
        for number, members in enumerate(np.split(order, starts[1:])):
            for first in range(0, len(members), _ROWS):
                farthest = vectors.distances(members[first : first + _ROWS], members).max()
                diameters[number] = max(diameters[number], farthest)
        return cls(group, order, starts, sizes, apart=apart, diameters=diameters)


def drawn_clusters(vectors: WordVectors, clusters: int, seed: int) -> NDArray[np.int64]:
    """Cluster words as in the reference code; return the cluster of each word, [V]."""
    size = len(vectors) // min(clusters, len(vectors))
    group, number = np.full(len(vectors), -1), 0
    for word in np.argsort(Noise.named(len(vectors), "clusant", seed).uniforms()[:, 0], kind="stable").tolist():
        if group[word] >= 0:
            continue
        left = np.flatnonzero(group < 0)
        distance = vectors.distances(np.array([word]), left)[0]
        group[left[np.argsort(distance, kind="stable")[:size]]] = number
        number += 1
    return group
