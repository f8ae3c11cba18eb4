"""Guards: checks of an edited text without classifiers, for names, antonyms, similarity and fluency.

Before a search, names are excluded from the words that may change, and antonyms from the replacements. Similarity and
fluency are checked during a search (`in_step.Asker`), for pairs of a text and a candidate with the same number of
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, spans
from epsilometer.models.embedded import masked_lm
from epsilometer.models.encoder import Encoder
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.locate import ENCODER
from epsilometer.text.identifiers import matches

Pair = tuple[str, str]  # a text, and a candidate to replace it
Upos = Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]]  # sentences as words -> their tags


def names(cut: Sequence[Spans], upos: Upos) -> list[frozenset[str]]:
    """Return the words of each text, in lower case, that are proper nouns or parts of an identifier in that text."""
    sentences = [(i, places) for i, spans in enumerate(cut) for places in spans.sentences]
    tags = upos([[cut[i].tokens[place] for place in places] for i, places in sentences])
    protected: list[set[str]] = [set() for _ in cut]
    for (i, places), of_sentence in zip(sentences, tags, strict=True):
        proper = (place for place, tag in zip(places, of_sentence, strict=True) if tag == "PROPN")
        protected[i].update(cut[i].tokens[place].lower() for place in proper)
    for of_text, words, identifiers in zip(cut, protected, matches([text.text for text in cut]), strict=True):
        for match in identifiers:
            inside = zip(of_text.tokens, of_text.starts, of_text.ends, strict=True)
            words.update(token.lower() for token, start, end in inside if start < match.end and end > match.start)
    return [frozenset(words) for words in protected]


@dataclass(frozen=True)
class Antonyms:
    """Pairs of antonyms in lower case, in both orders. No word may be replaced by its antonym."""

    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, relations: pl.DataFrame) -> Antonyms:
        """Return the antonyms among word relations (columns a, b, relation)."""
        table = relations.filter(pl.col("relation") == "antonym").select(pl.col("a", "b").str.to_lowercase())
        return cls(frozenset(pair for a, b in table.iter_rows() for pair in ((a, b), (b, a))))

    def refused(self, word: str, options: Sequence[str]) -> list[str]:
        """Return the options that are antonyms of a word."""
        return [option for option in options if (word.lower(), option.lower()) in self.pairs]


@dataclass(frozen=True, eq=False)
class Similarity:
    """A guard that accepts candidates whose embedding has a cosine of at least `least` with the text's embedding.

    Every changed sentence must have a cosine of at least `least` with its original, too. The reason is that one
    sentence has little influence on the embedding of a long text, and none beyond the encoder's window.
    """

    least: float
    model: str | Path = ENCODER

    def __call__(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return, for each pair, True if it passes."""
        parts = [[pair, *_changed_sentences(*pair)] for pair in pairs]
        cosines = iter(self.cosines([part for of_pair in parts for part in of_pair]))
        return [min([next(cosines) for _ in of_pair]) >= self.least for of_pair in parts]

    def cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the cosine of each pair. Each distinct text is encoded once."""
        numbers: dict[str, int] = {}
        rows = np.array([[numbers.setdefault(text, len(numbers)) for text in pair] for pair in pairs], np.int64)
        vectors = self._encoder.encode(list(numbers)).astype(np.float64)
        left, right = (vectors[column] for column in rows.reshape(-1, 2).T)
        return list(np.einsum("nd,nd->n", left, right).tolist())

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.model)


@dataclass(frozen=True, eq=False)
class Fluency:
    """A guard that rejects candidates in which a changed word is much less likely than the word that it replaces.

    largest_fall: largest decrease of a word's log-probability by a masked language model, in nats, summed over its
    pieces. The new word's context is the candidate, and the old word's context is the text. model: None for the
    embedded model.
    """

    largest_fall: float
    model: str | Path | None = None

    def __call__(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return, for each pair, True if it passes."""
        changed = [list(_changed_places(*pair)) for pair in pairs]
        texts: dict[str, int] = {}
        places: list[Place] = []
        for pair, of_pair in zip(pairs, changed, strict=True):
            for both in of_pair:
                for text, place in zip(pair, both, strict=True):
                    places.append(Place(texts.setdefault(text, len(texts)), *place))
        before, after = self._log_probabilities(list(texts), places).reshape(-1, 2).T
        # A new word that the model cannot spell is never fluent. An old word that the model cannot spell may change.
        falls = np.where(np.isneginf(after), np.inf, before - np.maximum(after, np.finfo(float).min))
        ends = np.cumsum([0, *map(len, changed)])
        return [bool((falls[a:b] <= self.largest_fall).all()) for a, b in pairwise(ends)]

    def _log_probabilities(self, texts: Sequence[str], places: Sequence[Place]) -> NDArray[np.float64]:
        """Return the log-probabilities [n] of the words at these places. Equal places are computed once."""
        distinct = {place: i for i, place in enumerate(dict.fromkeys(places))}
        return self._fill_mask.log_probabilities(texts, list(distinct))[[distinct[place] for place in places]]

    @cached_property
    def _fill_mask(self) -> FillMask:
        return FillMask(masked_lm() if self.model is None else self.model)


def _changed_sentences(text: str, candidate: str) -> Iterator[Pair]:
    """Yield each sentence that differs, as (before, after)."""
    original, rewritten = spans(text), spans(candidate)
    for before, after in zip(original.sentences, rewritten.sentences, strict=True):
        if original.tokens[before.start : before.stop] != rewritten.tokens[after.start : after.stop]:
            yield _cut(original, before), _cut(rewritten, after)


def _cut(spans: Spans, places: range) -> str:
    return spans.text[spans.starts[places.start] : spans.ends[places.stop - 1]]


def _changed_places(text: str, candidate: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield (start, end) of each word that differs, in the text and in the candidate."""
    original, rewritten = spans(text), spans(candidate)
    for place, (before, after) in enumerate(zip(original.tokens, rewritten.tokens, strict=True)):
        if before != after:
            yield (original.starts[place], original.ends[place]), (rewritten.starts[place], rewritten.ends[place])
