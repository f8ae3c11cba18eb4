"""Limits on replacements: the word keeps its part-of-speech tag, and the text stays similar to the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.models.tagging import Tagger

_ALIKE = frozenset({"NOUN", "VERB"})  # tags that may replace each other


@dataclass(frozen=True)
class SimilarityRule:
    """The smallest similarity to the original that a changed text must have.

    metric:    similarity of embeddings, "angular" (1 - angle / pi) or "cosine".
    window:    number of words around a changed word that are compared; None: the whole text.
    previous:  True to compare with the text before this replacement instead of the original.
    published: True to compare only the window around the replaced word, not windows of other changed words near it, and
               to accept all texts shorter than the window.
    """

    least: float
    metric: Literal["angular", "cosine"]
    window: int | None = None
    previous: bool = False
    published: bool = False

    def of(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
        """Return the similarity of two unit vectors."""
        cosine = min(1.0, float(first.astype(np.float64) @ second.astype(np.float64)))
        return cosine if self.metric == "cosine" else 1 - math.acos(max(cosine, -1.0)) / math.pi


@dataclass(frozen=True)
class EditLimits:
    """The limits on a replacement.

    tags: the context in which the word is tagged. The tag must stay the same, but nouns and verbs may replace each
    other. "sentence": the word's sentence, as changed so far; "context": TextAttack's window of the original, from 4
    words before the word to 3 words after it, in which the tag of the word's first occurrence counts; None: the tag may
    change.

    similarity: limit on the similarity; None: no limit.
    """

    tags: Literal["sentence", "context"] | None
    similarity: SimilarityRule | None

    def keep(self, tag: str, other: str) -> bool:
        """Return True if a word with the tag `tag` may become a word with the tag `other`."""
        return tag == other or {tag, other} <= _ALIKE


@dataclass(frozen=True, eq=False)
class Inspector:
    """A checker of replacements against the limits. Networks are loaded when they are first used."""

    limits: EditLimits

    @cached_property
    def _tagger(self) -> Tagger:
        return Tagger()

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(ENCODER)

    def tags(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return the tags of the words of each sentence."""
        return self._tagger.upos(sentences)

    def vectors(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the unit vectors of texts."""
        return list(self._encoder.encode(texts))

    def similarities(self, draft: Draft, position: int, tokens: Sequence[str]) -> Search[dict[str, float | None]]:
        """Return, for each token, the similarity after writing it at a position; None if the token breaks a limit.

        Without a limit on similarity, the similarity is 0.
        """
        result: dict[str, float | None] = dict.fromkeys(tokens)
        left = (yield from self._same_tag(draft, position, tokens)) if self.limits.tags else tokens
        rule = self.limits.similarity
        if rule is None:
            return result | dict.fromkeys(left, 0.0)
        if rule.published and rule.window is not None and len(draft.counted) < rule.window:
            return result | dict.fromkeys(left, 1.0)
        width = rule.window or len(draft.counted)
        centres = [position] if rule.published or rule.window is None else draft.near(position, width)
        before = draft.edits if rule.previous else {}
        windows = [
            (draft.window(centre, width, before), draft.window(centre, width, {**draft.edits, position: token}))
            for token in left
            for centre in centres
        ]
        every = [window for pair in windows for window in pair]
        vectors = yield from draft.answers(self.vectors, every)
        cosines = [rule.of(*vectors[i : i + 2]) for i in range(0, len(vectors), 2)]
        for i, token in enumerate(left):
            least = min(cosines[i * len(centres) : (i + 1) * len(centres)])
            result[token] = least if least >= rule.least else None
        return result

    def _same_tag(self, draft: Draft, position: int, tokens: Sequence[str]) -> Search[list[str]]:
        if self.limits.tags == "context":
            items = [draft.context(position, token) for token in (draft.spans.tokens[position], *tokens)]
        else:
            changed = [draft.sentence(position, {**draft.edits, position: token}) for token in tokens]
            items = [draft.sentence(position, {}), *changed]
        tags = yield from draft.answers(self.tags, [words for words, _ in items])
        own, *others = (row[place] for row, (_, place) in zip(tags, items, strict=True))
        return [token for token, tag in zip(tokens, others, strict=True) if self.limits.keep(own, tag)]
