"""Base class of mechanisms in which a language model rewrites every sentence of a text.

A rewrite is deterministic: each sentence becomes the likeliest output of a beam search, and equal sentences are
rewritten once. A sentence that is too long for the model is split at white space, so no text is truncated. Sentences
without a letter, and the white space between sentences, stay unchanged. No classifier checks the rewrite, so the status
only states whether the text has changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.text.sentences import sentences

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq


@component
class SentenceMechanism(ABC):
    """A mechanism that rewrites every sentence by one or several models.

    beams: number of hypotheses in the beam search; longest: most tokens that a model reads at a time, so longer
    sentences are split. A model then writes at most twice `longest` tokens, and never more than its own limit.
    """

    has_budget: ClassVar[bool] = False

    beams: PositiveInt = 4
    longest: PositiveInt = 128

    @property
    @abstractmethod
    def models(self) -> Sequence[Seq2Seq]:
        """The models that rewrite a sentence, one after the other. They are loaded once."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the texts with every sentence rewritten. epsilon and noise have no effect."""
        cut = {text: self._pieces(text) for text in dict.fromkeys(texts)}
        distinct = list(
            dict.fromkeys(piece for parts in cut.values() for piece, _ in parts if any(map(str.isalpha, piece)))
        )
        anew = dict(zip(distinct, self._through(distinct), strict=True))
        written = {
            text: "".join(anew.get(piece, piece) + gap for piece, gap in parts) if parts else text
            for text, parts in cut.items()
        }
        rewrites = [written[text] for text in texts]
        status = [NOTHING if text == rewrite else FOUND for text, rewrite in zip(texts, rewrites, strict=True)]
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, np.zeros(len(texts), np.int64)))

    def _through(self, sentences: Sequence[str]) -> list[str]:
        from epsilometer.models.beam_search import rewritten

        for model in self.models:
            sentences = rewritten(model, sentences, min(2 * self.longest, model.longest(0)), self.beams)
        return list(sentences)

    def _pieces(self, text: str) -> list[tuple[str, str]]:
        """Return a text's sentences, split into pieces of at most `longest` tokens, with the white space after each."""
        model, left = self.models[0], sentences(text)[::-1]
        room = min(self.longest, model.window)
        pieces: list[tuple[str, str]] = []
        while left:
            sentence, gap = left.pop()
            if len(sentence) > 1 and len(model.tokens([sentence])[0]) > room:
                first, between, second = _halves(sentence)
                left += [(second, gap), (first, between)]
            else:
                pieces.append((sentence, gap))
        return pieces


def _halves(sentence: str) -> tuple[str, str, str]:
    """Split a sentence at the white space nearest to the middle; return first half, white space ("" if none), rest."""
    middle = len(sentence) // 2
    places = [i for i, character in enumerate(sentence) if character.isspace()]
    inner = [i for i in places if sentence[:i].strip() and sentence[i:].strip()]
    if not inner:
        return sentence[:middle], "", sentence[middle:]
    at = min(inner, key=lambda i: abs(i - middle))
    first, second = sentence[:at], sentence[at:]
    rest = second.lstrip()
    return first, second[: len(second) - len(rest)], rest
