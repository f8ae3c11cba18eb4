"""ZSTS: replaces words that are unlikely under a masked language model by likelier ones (Albanese et al. 2023).

In plain words it replaces unusual words by words that a language model finds more usual.

The probability P(w | x) of a word w in a text x is the product of the model's probabilities of w's pieces, each
predicted with that piece masked. A word is unsafe if P(w | x) < p. Its candidates are the `candidates` likeliest words
when the whole word is masked. The candidate with the nearest vector replaces the unsafe word. If no candidate is within
the cosine distance s, `***` replaces the word. Unsafe numbers get new digits. All words are judged in the original text
(arXiv:2311.10785). Neither the paper nor this mechanism claims anything.

all-MiniLM-L6-v2 computes vectors of single words without context; the reference code (fedealbanese/lm-text-sanitization
20d2411) uses BERT's state at the first piece. Here pieces that continue a word are not candidates. In the reference
code `token_similarity` is a distance, so the default s = 0 replaces every unsafe word by `***`. Published comparisons
do not state p and s.

`as_published: true` reproduces what determines the results of the reference code. One dictionary from words to
replacements is filled text by text, and used for all later texts. This is a substitution cipher, which anyone who has
the dictionary can undo. Digits always come from seed 0, so a number becomes the same number in every text. Candidates
are written in lower case. **A rewrite then depends on the earlier texts of the call, and on no random stream**. Another
order or another split of the texts gives different rewrites. By default each text has its own dictionary, digits come
from the text's stream, and words keep their capitals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, edited, in_case_of, is_word, spans
from epsilometer.models.embedded import masked_lm
from epsilometer.models.encoder import Encoder
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.locate import ENCODER

MASKED = "***"
_SHORTEST = 3  # fewest letters of a candidate
_LEAST = math.log(1e-50)  # smallest log-probability of a candidate
_TOGETHER = 256  # texts in memory at a time; does not change results

Unsafe = Mapping[int, str | None]
"""The replacement of each unsafe word of a text, by position; None for a number."""


@component
class ZSTS:
    """The ZSTS mechanism.

    resource:     a masked language model by id or folder.
    p:            words with a smaller probability are unsafe.
    s:            largest cosine distance of a replacement.
    candidates:   number of likeliest words that are compared.
    as_published: True for one dictionary for all texts, digits from seed 0, and no capitals.
    precision:    precision of the masked language model.
    """

    has_budget: ClassVar[bool] = False
    default_resource: ClassVar[Callable[[], Path]] = staticmethod(masked_lm)

    resource: str | Path
    p: Annotated[float, Field(ge=0, le=1)] = 0.01
    s: Annotated[float, Field(ge=0, le=2)] = 0.6
    candidates: Annotated[int, Field(ge=1)] = 50
    as_published: bool = False
    precision: str = "float32"

    @cached_property
    def _model(self) -> FillMask:
        return FillMask(self.resource, self.precision)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(ENCODER)

    @cached_property
    def _vectors(self) -> dict[str, NDArray[np.float32]]:
        """Cached vectors of all candidates so far, at most one per output of the model."""
        return {}

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Each distinct text is read once; only digits are random."""
        distinct = list(dict.fromkeys(texts))
        unsafe: dict[str, tuple[Spans, Unsafe]] = {}
        for start in range(0, len(distinct), _TOGETHER):
            some = distinct[start : start + _TOGETHER]
            unsafe |= dict(zip(some, self._unsafe(some), strict=True))
        dictionary: dict[str, str] = {}
        rewrites = []
        for i, text in enumerate(texts):
            if self.as_published:
                rewrites.append(_written(*unsafe[text], dictionary, None))
            else:
                rewrites.append(_written(*unsafe[text], {}, noise.generator(i)))
        status = [NOTHING if text == rewrite else FOUND for text, rewrite in zip(texts, rewrites, strict=True)]
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, np.zeros(len(texts), np.int64)))

    def _unsafe(self, texts: Sequence[str]) -> Iterator[tuple[Spans, Unsafe]]:
        """Yield the tokens and the unsafe words of each text."""
        cut = [spans(text) for text in texts]
        places = [
            (Place(i, of_text.starts[k], of_text.ends[k]), k)
            for i, of_text in enumerate(cut)
            for k, token in enumerate(of_text.tokens)
            if any(map(str.isalnum, token))
        ]
        limit = math.log(self.p) if self.p else -math.inf
        below = self._model.log_probabilities(texts, [place for place, _ in places]) < limit
        replacements: list[dict[int, str | None]] = [{} for _ in texts]
        words = []
        for (place, position), is_unsafe in zip(places, below, strict=True):
            if is_unsafe and cut[place.text].tokens[position].isdigit():
                replacements[place.text][position] = None
            elif is_unsafe:
                words.append((place, position))
        nearest = self._nearest(texts, [place for place, _ in words])
        for (place, position), word in zip(words, nearest, strict=True):
            replacements[place.text][position] = word
        return zip(cut, replacements, strict=True)

    def _nearest(self, texts: Sequence[str], places: Sequence[Place]) -> Iterator[str]:
        """Yield the replacement of the word at each place in lower case: the nearest likely word, or MASKED."""
        own = [texts[place.text][place.start : place.end].lower() for place in places]
        vectors = dict(zip(dict.fromkeys(own), self._encoder.encode(list(dict.fromkeys(own))), strict=True))
        outputs, log_p = self._model.likeliest(texts, places, self.candidates)
        named = self._model.outputs
        usable = [
            [
                named[o].lower()
                for o, p in zip(row, logs, strict=True)
                if p >= _LEAST and len(named[o]) >= _SHORTEST and is_word(named[o])
            ]
            for row, logs in zip(outputs.tolist(), log_p.tolist(), strict=True)
        ]
        new = [word for word in dict.fromkeys(w for row in usable for w in row) if word not in self._vectors]
        self._vectors.update(zip(new, self._encoder.encode(new), strict=True))
        for word, row in zip(own, usable, strict=True):
            others = [other for other in row if other != word]
            near = [float(1 - vectors[word].astype(np.float64) @ self._vectors[other]) for other in others]
            best = int(np.argmin(near)) if near else 0
            yield others[best] if near and near[best] <= self.s else MASKED


def _written(text: Spans, unsafe: Unsafe, dictionary: dict[str, str], rng: np.random.Generator | None) -> str:
    """Return the text with its unsafe words replaced as in the dictionary, to which new words are added first.

    rng: generator of digits; None: as published, with seed 0 for each number, and words in lower case.
    """
    edits = {}
    for position, replacement in sorted(unsafe.items()):
        token = text.tokens[position]
        word = token.lower()
        if word not in dictionary:
            dictionary[word] = _digits(word, rng) if replacement is None else replacement
        edits[position] = dictionary[word] if rng is None else in_case_of(dictionary[word], token)
    return edited(text, edits)


def _digits(number: str, rng: np.random.Generator | None) -> str:
    """Return as many random digits as the number has. rng: the generator; None: the reference code's seed 0."""
    if rng is not None:
        return "".join(map(str, rng.integers(10, size=len(number))))
    return "".join(map(str, np.random.RandomState(0).randint(10, size=len(number))))
