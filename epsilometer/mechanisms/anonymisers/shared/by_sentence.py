"""The base of mechanisms in which a language model rewrites every sentence of a text.

Nothing is drawn: each sentence becomes the likeliest one under beam search, so a rewrite depends on its text alone, and
a distinct sentence is rewritten once. A sentence that is too long to be read at once is cut into pieces at white space.
Nothing is left out, and the white space between sentences stays, as do sentences without a letter.

No classifier is run, so the status only says whether the text has changed.
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
    """beams: the number of hypotheses of the search; longest: the most tokens of a sentence that are read at a time.

    At most twice as many are written, or as many as the model can write.
    """

    has_budget: ClassVar[bool] = False

    beams: PositiveInt = 4
    longest: PositiveInt = 128

    @property
    @abstractmethod
    def models(self) -> Sequence[Seq2Seq]:
        """The models that a sentence goes through, one after the other; loaded once."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Returns the texts with every sentence rewritten; neither epsilon nor noise has an effect."""
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
        """Returns the sentences of a text, cut to at most `longest` tokens, each with the white space after it."""
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
    """Returns the halves of a sentence and the white space between them, nearest to the middle; "" if there is none."""
    middle = len(sentence) // 2
    places = [i for i, character in enumerate(sentence) if character.isspace()]
    inner = [i for i in places if sentence[:i].strip() and sentence[i:].strip()]
    if not inner:
        return sentence[:middle], "", sentence[middle:]
    at = min(inner, key=lambda i: abs(i - middle))
    first, second = sentence[:at], sentence[at:]
    rest = second.lstrip()
    return first, second[: len(second) - len(rest)], rest
