"""DP-ST: a text is replaced by public triples like its own (Meisenbacher et al., "DP-ST").

In plain words it replaces each text by sentences built from public phrases like its own, chosen at random.

A tagger reads triples (subject, verb, object) off the text, at most one a sentence. The first m of them fill m slots, m
public; slots left over stay empty. A slot holds the unit vector v of its triple's embedding, an empty slot the vector
0. A public corpus of triples y with unit vectors w_y is partitioned into clusters c with centroids mu_c. With u(a,
b) = max(0, cos(a, b)), 0 if a is empty, each slot releases one triple of the corpus, at epsilon' = epsilon / m:

    P(c | v)    = |c| exp(epsilon'/2 u(v, mu_c) / 2) / sum over c' of |c'| exp(epsilon'/2 u(v, mu_c') / 2)
    P(y | c, v) = exp(epsilon'/2 u(v, w_y) / 2) / sum over y' in c of exp(epsilon'/2 u(v, w_y') / 2)
    P(y | v)    = P(c(y) | v) P(y | c(y), v).

Claim: epsilon for texts as wholes, any two. For any v, v', numerators differ by at most a factor e^(epsilon'/4), since
u lies in [0, 1], and so do normalisers: both choices are exponential mechanisms (McSherry and Talwar 2007, theorem 6;
utility of sensitivity 1, base measures |c| and 1) that spend epsilon'/2 each, so ln P(y | v) - ln P(y | v') <= epsilon'
(sequential composition). Given the text the m slots are drawn independently, so their losses add up to at most
m epsilon' = epsilon. An empty slot follows the same law with all utilities 0, which is a uniform draw from the corpus:
the claim also covers whether a slot is empty, and a text without any triple becomes m uniform draws. The text is
written from the released triples alone, always m of them, so its length says nothing more about the source.

Departures from the reference code (sjmeis/DPST 4367fda). `as_published: true` undoes all of them but the language
model's prompt: there the cluster is the nearest, a function of the private text, and all of epsilon / n goes to the
member; n is the number of triples in the text, which is released; a text without triples is returned unchanged; and a
language model writes at most as many tokens as the private text has, or `longest`. Different clusters share no triple,
so no epsilon holds: the published form states the paper's claim, and must fail.
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
_INPUTS = 300  # triples of the corpus that serve as private ones in checks of claims
_UNCHANGED = 1 << 12  # as_published: numbers for texts that are returned unchanged
_CELLS = 1 << 21  # similarities in memory at a time
_REMEMBERED = 1 << 14  # texts whose triples are cached


@component
class DPST(OneOfGrid):
    """A mechanism that turns a text into `triples` triples of a public corpus.

    resource:   a folder of triples (stage `build`).
    triples:    m, the public number of triples that are read and released; the budget is shared among them.
    clusters:   which of the corpus's clusterings, by its number of clusters; the coarsest unless given.
    writer:     "template" ("s r o." joined), or a language model by id or folder (`language.writer`), asked by `prompt`
                for at most `longest` tokens.
    as_published: the published form, whose claim must fail.
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
        """The published views: the template spells the triples out; a language model's text does not."""
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
        """Return the corpus's triples; in the published form, then the texts that are returned unchanged."""
        named = [triple.text for triple in self._corpus.triples]
        return named + ["(the text itself)"] * _UNCHANGED if self.as_published else named

    @cached_property
    def inputs(self) -> list[str]:
        """Return texts that fill all slots with one of the corpus's first triples, and one text without triples."""
        slots = 1 if self.as_published else self.triples
        written = [_sentence(triple) for triple in self._corpus.triples[:_INPUTS]]
        # A triple with a sentence-ending mark would split the text.
        return [" ".join([text] * slots) for text in written if len(sentences(text)) == 1] + ["Nothing."]

    def tokens(self, text: str) -> list[str]:
        """Return the triples, in the form of sentences."""
        return [_sentence(triple) for triple in self._corpus.reader.triples([text])[0]]

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for the text as a whole, any two texts; false in the published form."""
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with a row for each distinct triple; the outputs are the triples of the corpus."""
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
        """Draw two uniforms a slot, for cluster and member; a publication exactly. Distinct texts are read once."""
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts], np.int64)
        slots = self._slots(list(distinct))

        def log_clusters(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            far = self._clusters.utility(slots.vectors[rows])
            for epsilon in epsilons:
                yield self._log_cluster(far, slots.share[rows], epsilon)

        wanted = slots.rows.take(source)
        # A trial's first uniforms choose the clusters, the same number after them the members.
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
        """Return the triples of each text. They are cached, since an audit requests the same texts many times."""
        if len(self._read) > _REMEMBERED:
            self._read.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._read]
        self._read.update(zip(new, self._corpus.reader.triples(new), strict=True))
        return [self._read[text] for text in texts]

    def _vectors(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        """Return the vectors of triples [n, d], each computed once."""
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
        """Return the factor [n] of a member's utility: half of its budget."""
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
        """Return the language model's text for each draft, in the published form at most as long as the source text."""
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

    rows:       each text's law rows, one a slot.
    vectors:    [rows, d], of length 1, or 0 if the slot is empty.
    share:      [rows] the part of epsilon that the slot has.
    unchanged:  [rows] the number of the text that is returned as it is, else -1.
    """

    rows: Ragged
    vectors: NDArray[np.float64]
    share: NDArray[np.float64]
    unchanged: NDArray[np.int64]

    def with_unchanged(self, law: NDArray[np.float64], rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the law [n, triples] extended by the outputs that are texts themselves."""
        law = np.pad(law, ((0, 0), (0, _UNCHANGED)), constant_values=-np.inf)
        stays = np.flatnonzero(self.unchanged[rows] >= 0)
        law[stays] = -np.inf
        law[stays, law.shape[1] - _UNCHANGED + self.unchanged[rows[stays]]] = 0
        return law


@dataclass(frozen=True)
class _Clusters:
    """A clustering of n triples.

    number:      [n] the cluster of each triple.
    order:       [n] the triples, cluster after cluster; starts: [clusters + 1] the place of each cluster's start in it.
    vectors:     [n, d] of the triples, directions: [clusters, d] of the centroids, all of length 1.
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
        """Return ln of each triple's share of its cluster: [n, triples], from logarithms of unnormalised weights."""
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
        """Rows [n] and a cluster each, [n], by cluster: places [q], the cluster's triples [k], utilities [q, k]."""
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
