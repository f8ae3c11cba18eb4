"""DP-ST: replaces a text by public triples similar to its own (Meisenbacher et al., "DP-ST").

In plain words it replaces each text by sentences built from public phrases like its own, chosen at random.

A tagger extracts triples (subject, verb, object) from the text, at most one per sentence. The first m of them fill m
slots, where m is public; remaining slots are empty. A slot has the unit vector v of its triple's embedding, and an
empty slot has the vector 0. A public corpus of triples y with unit vectors w_y is partitioned into clusters c with
centroids mu_c. With the utility u(a, b) = max(0, cos(a, b)), which is 0 if a is 0, each slot releases one triple of the
corpus, at epsilon' = epsilon / m:

    P(c | v)    = |c| exp(epsilon'/2 u(v, mu_c) / 2) / sum over c' of |c'| exp(epsilon'/2 u(v, mu_c') / 2)
    P(y | c, v) = exp(epsilon'/2 u(v, w_y) / 2) / sum over y' in c of exp(epsilon'/2 u(v, w_y') / 2)
    P(y | v)    = P(c(y) | v) P(y | c(y), v).

Claim: epsilon for any two whole texts. For any v, v', numerators and normalisers each differ by a factor of at most
e^(epsilon'/4), since u is in [0, 1]. The choices of c and of y are exponential mechanisms (McSherry and Talwar 2007,
theorem 6; utility of sensitivity 1, base measures |c| and 1). Each spends epsilon'/2, so ln P(y | v) - ln P(y | v') <=
epsilon' by sequential composition. Given the text, the m slots are sampled independently, so their losses add up to at
most m epsilon' = epsilon. An empty slot has utilities of 0, and releases a uniformly random triple. So the claim also
hides which slots are empty; a text without triples becomes m uniformly random triples. The released text is written
from exactly m released triples, so its length reveals nothing else about the source.

The mechanism departs from the reference code (sjmeis/DPST 4367fda). `as_published: true` follows the code, except for
the language model's prompt:

- the cluster is the nearest one, a function of the private text, and all of epsilon / n is spent on the choice of a
  triple in that cluster;
- n is the number of triples in the text, which the release reveals;
- a text without triples is returned unchanged;
- a language model writes at most as many tokens as the private text has.

Triples with different nearest clusters have no output in common, so no epsilon holds. The published form states the
paper's claim, and must fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from scipy.special import log_softmax

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.shared.embedded import triples
from epsilometer.mechanisms.selection.shared.triples import TripleCorpus
from epsilometer.mechanisms.selection.shared.writer import NoteWriter
from epsilometer.models.tagging import Triple, sentences

TEMPLATE = "template"
_INPUTS = 300  # triples of the corpus that are used as private texts in checks of claims
_UNCHANGED = 1 << 12  # number of outputs that stand for texts returned unchanged, under `as_published`
_CELLS = 1 << 21  # similarities in memory at a time
_REMEMBERED = 1 << 14  # texts whose triples are cached


@component
class DPST(OneOfGrid):
    """DP-ST.

    resource:   a folder of triples (stage `build`).
    triples:    m, the public number of triples that are read and released; they share the budget equally.
    clusters:   number of clusters of the clustering to use; None: the coarsest clustering of the corpus.
    writer:     "template" (joins "s r o." of all triples), or a language model by id or folder (`shared/writer.py`).
    prompt, longest: the language model's prompt, and the most tokens that it writes.
    as_published: True for the published form, whose claim must fail.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(triples)

    resource: Path
    triples: PositiveInt = 2
    clusters: PositiveInt | None = None
    writer: str = TEMPLATE
    prompt: str | None = None
    longest: Annotated[int, Field(ge=1)] = 64
    as_published: bool = False

    @property
    def releases(self) -> frozenset[str]:
        """The published views. The template's text reveals the triples; a language model's text does not."""
        return frozenset({TEXT, UNITS} if self.writer == TEMPLATE else {TEXT})

    @cached_property
    def _corpus(self) -> TripleCorpus:
        return TripleCorpus.load(self.resource)

    @cached_property
    def _clusters(self) -> _Clusters:
        sizes = sorted(self._corpus.centroids)
        size = self.clusters or sizes[0]
        if size not in sizes:
            raise UserError(
                f"clusters must be one of {', '.join(map(str, sizes))}, the numbers in {self.resource}, got {size}",
                "EPS-M052",
            )
        return _Clusters.of(self._corpus.vectors, self._corpus.centroids[size], self._corpus.members[size])

    @property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the corpus's triples; in the published form also texts returned unchanged."""
        named = [triple.text for triple in self._corpus.triples]
        return named + ["(the text itself)"] * _UNCHANGED if self.as_published else named

    @cached_property
    def inputs(self) -> list[str]:
        """Test texts: each fills all slots with one of the corpus's first triples; the last has no triple."""
        slots = 1 if self.as_published else self.triples
        written = [_sentence(triple) for triple in self._corpus.triples[:_INPUTS]]
        # Leaves out triples with a mark that would end a sentence.
        return [" ".join([text] * slots) for text in written if len(sentences(text)) == 1] + ["Nothing."]

    def tokens(self, text: str) -> list[str]:
        """Return the triples of a text, each as a sentence."""
        return [_sentence(triple) for triple in self._corpus.reader.triples([text])[0]]

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for any two whole texts; false in the published form."""
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per distinct slot. The outputs are the triples of the corpus."""
        slots = self._slots(texts)
        count = len(self._corpus.triples)

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            near = self._clusters.members_utility(slots.vectors[rows])
            far = self._clusters.utility(slots.vectors[rows])
            for epsilon in epsilons:
                cluster = self._log_cluster(far, slots.share[rows], epsilon)
                within = self._clusters.log_within(self._member_scale(slots.share[rows], epsilon)[:, None] * near)
                law = cluster[:, self._clusters.number] + within
                yield slots.with_unchanged(law, rows) if self.as_published else law

        def entries(
            rows: NDArray[np.integer], outputs: Sequence[NDArray[np.integer]], epsilons: Sequence[float]
        ) -> Iterator[NDArray[np.float64]]:
            distinct_rows, back = np.unique(rows, return_inverse=True)
            far = self._clusters.utility(slots.vectors[distinct_rows])
            for numbers, epsilon in zip(outputs, epsilons, strict=True):
                value = np.full(len(rows), -np.inf)
                inside = np.flatnonzero((numbers < count) & (slots.unchanged[rows] < 0))
                row, output = rows[inside], numbers[inside]
                number = self._clusters.number[output]
                cluster = self._log_cluster(far, slots.share[distinct_rows], epsilon)
                within = np.empty(len(row))
                for places, members, near in self._clusters.pairs(slots.vectors, row, number):
                    scaled = self._member_scale(slots.share[row[places]], epsilon)[:, None] * near
                    at = np.searchsorted(members, output[places])
                    within[places] = log_softmax(scaled, axis=1)[np.arange(len(places)), at]
                value[inside] = cluster[back[inside], number] + within
                value[(slots.unchanged[rows] >= 0) & (numbers - count == slots.unchanged[rows])] = 0
                yield value

        return Laws(slots.rows, count + (_UNCHANGED if self.as_published else 0), log_probabilities, entries)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Distinct texts are read once.

        Each slot uses two uniforms, for cluster and member; a publication uses exact samplers.
        """
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts], np.int64)
        slots = self._slots(list(distinct))

        def log_clusters(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            far = self._clusters.utility(slots.vectors[rows])
            for epsilon in epsilons:
                yield self._log_cluster(far, slots.share[rows], epsilon)

        wanted = slots.rows.take(source)
        # The first half of a trial's uniforms chooses clusters, the second half members.
        second = np.repeat(np.tile([False, True], len(wanted)), np.repeat(wanted.lengths, 2))
        results = []
        chosen = sample(Laws(slots.rows, self._clusters.count, log_clusters), source, epsilons, noises)
        for number, epsilon, noise in zip(chosen, epsilons, noises, strict=True):
            uniforms = noise.ragged(2 * wanted.lengths)[second, 0]
            chosen_triples = np.empty(len(number.values), np.int32)
            for places, members, near in self._clusters.pairs(slots.vectors, wanted.values, number.values):
                scale = self._member_scale(slots.share[wanted.values[places]], epsilon)
                log_p = log_softmax(scale[:, None] * near, axis=1)
                if noise.exact is not None:
                    chosen_triples[places] = [members[noise.exact.choose(row)[0]] for row in log_p]
                    continue
                cdf = np.cumsum(np.exp(log_p), axis=1)
                at = (uniforms[places, None] >= cdf / cdf[:, -1:]).sum(axis=1)
                chosen_triples[places] = members[np.minimum(at, len(members) - 1)]
            unchanged = slots.unchanged[wanted.values]
            units = Ragged(
                np.where(unchanged < 0, chosen_triples, len(self._corpus.triples) + unchanged), wanted.offsets
            )
            results.append(Rewrites(self._written(texts, units), units))
        return results

    def _slots(self, texts: Sequence[str]) -> _Slots:
        read = self._triples(texts)
        held: list[list[Triple | str | None]]
        if self.as_published:
            shares = [1 / max(1, len(triples)) for triples in read]
            held = [[*triples] or [text] for triples, text in zip(read, texts, strict=True)]
        else:
            shares = [1 / self.triples] * len(read)
            held = [[*t[: self.triples], *[None] * (self.triples - len(t))] for t in read]
        named = [[(slot, share) for slot in slots] for slots, share in zip(held, shares, strict=True)]
        row = {name: i for i, name in enumerate(dict.fromkeys(name for names in named for name in names))}
        vectors = np.zeros((len(row), self._corpus.vectors.shape[1]))
        full = [(i, slot) for i, (slot, _) in enumerate(row) if isinstance(slot, Triple)]
        vectors[[i for i, _ in full]] = self._vectors([triple for _, triple in full])
        return _Slots(
            Ragged.of([[row[name] for name in names] for names in named]),
            vectors,
            np.array([share for _, share in row]),
            np.array([-1 if slot is None or isinstance(slot, Triple) else _number(slot) for slot, _ in row], np.int64),
        )

    def _triples(self, texts: Sequence[str]) -> list[list[Triple]]:
        """Return the triples of each text. They are cached, since an audit uses the same texts many times."""
        if len(self._read) > _REMEMBERED:
            self._read.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._read]
        self._read.update(zip(new, self._corpus.reader.triples(new), strict=True))
        return [self._read[text] for text in texts]

    def _vectors(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        """Return the vectors of triples [n, d]. They are cached."""
        if len(self._encoded) > _REMEMBERED:
            self._encoded.clear()
        new = [triple for triple in dict.fromkeys(triples) if triple not in self._encoded]
        self._encoded.update(zip(new, self._corpus.encode(new), strict=True))
        rows = [self._encoded[triple] for triple in triples]
        return np.array(rows, np.float32).reshape(len(rows), self._corpus.vectors.shape[1])

    @cached_property
    def _read(self) -> dict[str, list[Triple]]:
        return {}

    @cached_property
    def _encoded(self) -> dict[Triple, NDArray[np.float32]]:
        return {}

    def _log_cluster(
        self, utility: NDArray[np.float64], share: NDArray[np.float64], epsilon: float
    ) -> NDArray[np.float64]:
        """Return ln P(c | v) for utilities [n, clusters] of slots with `share` [n] of epsilon."""
        if self.as_published:
            nearest = np.where(self._clusters.sizes > 0, utility, -1).argmax(axis=1)
            return np.where(np.arange(utility.shape[1]) == nearest[:, None], 0.0, -np.inf)
        scaled = (epsilon * share / 4)[:, None] * utility + self._clusters.log_sizes
        return log_softmax(scaled, axis=1)

    def _member_scale(self, share: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the factor [n] of a member's utility: half of the budget of this choice."""
        return epsilon * share / (2 if self.as_published else 4)

    def _written(self, texts: Sequence[str], units: Ragged) -> list[str]:
        triples = self._corpus.triples
        rows = [units.row(i) for i in range(len(units))]
        drafts = [" ".join(_sentence(triples[u]) for u in row if u < len(triples)) for row in rows]
        if self.writer != TEMPLATE:
            drafts = self._fluent(drafts, texts)
        unchanged = [len(row) > 0 and row[0] >= len(triples) for row in rows]
        return [text if stays else draft for text, draft, stays in zip(texts, drafts, unchanged, strict=True)]

    def _fluent(self, drafts: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return the language model's text for each draft; in the published form, no longer than the source text."""
        limits = [self.longest] * len(drafts)
        if self.as_published:
            length = {text: max(1, self._writer.length(text)) for text in dict.fromkeys(texts)}
            limits = [length[text] for text in texts]
        pairs = list(zip(drafts, limits, strict=True))
        distinct = list(dict.fromkeys(pair for pair in pairs if pair[0]))
        written = self._writer.write([draft for draft, _ in distinct], [limit for _, limit in distinct])
        fluent = dict(zip(distinct, written, strict=True))
        return [fluent.get(pair, "") for pair in pairs]

    @cached_property
    def _writer(self) -> NoteWriter:
        return NoteWriter(self.writer, self.prompt, self.longest)


@dataclass(frozen=True)
class _Slots:
    """The slots of some texts.

    rows:       for each text, the row of each of its slots; equal slots share a row.
    vectors:    [rows, d], of length 1, or 0 for an empty slot.
    share:      [rows], the slot's share of epsilon.
    unchanged:  [rows], the number of a text that is returned unchanged, else -1.
    """

    rows: Ragged
    vectors: NDArray[np.float64]
    share: NDArray[np.float64]
    unchanged: NDArray[np.int64]

    def with_unchanged(self, law: NDArray[np.float64], rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the law [n, triples] extended by the outputs for texts returned unchanged."""
        law = np.pad(law, ((0, 0), (0, _UNCHANGED)), constant_values=-np.inf)
        stays = np.flatnonzero(self.unchanged[rows] >= 0)
        law[stays] = -np.inf
        law[stays, law.shape[1] - _UNCHANGED + self.unchanged[rows[stays]]] = 0
        return law


@dataclass(frozen=True)
class _Clusters:
    """A clustering of n triples.

    number:      [n], the cluster of each triple.
    order:       [n], the triples ordered by cluster; starts: [clusters + 1], each cluster's start in `order`.
    vectors:     [n, d], unit vectors of the triples; directions: [clusters, d], unit vectors of the centroids.
    """

    number: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    vectors: NDArray[np.float32]
    directions: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], centroids: NDArray[np.float32], members: NDArray[np.int32]) -> _Clusters:
        number = members.astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(centroids)))])
        norms = np.maximum(np.linalg.norm(centroids.astype(np.float64), axis=1, keepdims=True), 1e-12)
        return cls(number, np.argsort(number, kind="stable"), starts, vectors, directions=centroids / norms)

    @property
    def count(self) -> int:
        return len(self.directions)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def log_sizes(self) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # an empty cluster is never chosen
            return np.log(self.sizes)

    def utility(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the utilities u(v, mu_c): [n, clusters]."""
        return (vectors @ self.directions.T).clip(0, 1)

    def members_utility(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the utilities u(v, w_y): [n, triples]."""
        return (vectors @ self.vectors.T.astype(np.float64)).clip(0, 1)

    def log_within(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln P(y | cluster of y) for each triple y, [n, triples]. weights: unnormalised log-weights."""
        ordered = weights[:, self.order]
        filled = np.flatnonzero(self.sizes)
        starts = self.starts[filled]
        each = np.repeat(np.arange(len(filled)), self.sizes[filled])
        largest = np.maximum.reduceat(ordered, starts, axis=1)
        total = np.add.reduceat(np.exp(ordered - largest[:, each]), starts, axis=1)
        result = np.empty_like(weights)
        result[:, self.order] = ordered - (largest + np.log(total))[:, each]
        return result

    def pairs(
        self, vectors: NDArray[np.float64], rows: NDArray[np.integer], numbers: NDArray[np.integer]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """Yield, cluster by cluster, the pairs of a row and a cluster.

        rows, numbers: [n], the row of `vectors` and the cluster of each pair. Yields for each cluster the indices [q]
        of its pairs, its triples [k], and the utilities [q, k] of these triples.
        """
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], np.arange(self.count + 1))
        for number in np.flatnonzero(np.diff(borders)):
            members = self.order[self.starts[number] : self.starts[number + 1]]
            inside = self.vectors[members].T.astype(np.float64)
            places = order[borders[number] : borders[number + 1]]
            step = max(1, _CELLS // len(members))
            for start in range(0, len(places), step):
                part = places[start : start + step]
                yield part, members, (vectors[rows[part]] @ inside).clip(0, 1)


def _sentence(triple: Triple) -> str:
    return " ".join(triple) + "."


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % _UNCHANGED
