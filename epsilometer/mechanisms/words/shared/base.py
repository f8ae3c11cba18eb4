"""Base classes of mechanisms that replace every word independently, over one public vocabulary.

Every word of a text gets independent noise, and the number of words is not hidden. An out-of-vocabulary word is first
replaced by one fixed word (`vocabulary.py`). Case, spacing and punctuation are normalised before the noise, and words
are joined by single spaces after it. `layout: kept` writes words in the source's layout instead, which reveals the
layout, so nothing is claimed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.exact_samplers import WeightCache
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import TEXT, UNITS, Rewrites, Unread
from epsilometer.core.ragged import Ragged
from epsilometer.mechanisms.words.shared import embedded
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import lay_out, words


@component
class WordMechanism(ABC):
    """A mechanism that replaces every word independently.

    resource: a file of words; layout: `kept` to restore the source's case, spacing and punctuation, without a claim.
    """

    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # the words of the text are the units

    resource: Path
    layout: Literal["normalised", "kept"] = "normalised"

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of inputs and outputs."""

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs of one word, for exhaustive checks: the vocabulary."""
        return self.vocabulary.words

    @property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the vocabulary."""
        return self.vocabulary.words

    def tokens(self, text: str) -> list[str]:
        """Return the words of a text, with out-of-vocabulary words replaced by the fixed word."""
        return [self.vocabulary.words[number] for number in self.vocabulary.encode([text]).values]

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the number of out-of-vocabulary words."""
        all_words = [word for text in texts for word in words(text)]
        return Unread(unknown=sum(word not in self.vocabulary.index for word in all_words), words=len(all_words))

    def claim(self, epsilon: float, metric: str | None = None) -> Guarantee | None:
        """Return the claim of epsilon per word, for texts with the same number of words; None if layout is `kept`."""
        if self.layout == "kept":
            return None
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, metric=metric)

    @property
    def text_is_units(self) -> bool:
        """True if the sampled words determine the text (`Writes`)."""
        return self.layout == "normalised"

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the sampled words joined by single spaces, or in the source's layout."""
        if self.layout == "normalised":
            return self.vocabulary.decode(units)
        names = self.vocabulary.words
        return [lay_out(text, [names[u] for u in units.row(i)]) for i, text in enumerate(texts)]

    def written(self, texts: Sequence[str], units: Ragged) -> Rewrites:
        """Return sampled words with their texts, as rewrites."""
        return Rewrites(self.write(texts, units), units)


@component
class WordVectorMechanism(WordMechanism, ABC):
    """A word mechanism whose vocabulary has vectors.

    normalise: True to scale the word vectors to length 1.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(embedded.vectors)

    normalise: bool = False

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of the whole words in the file."""
        whole = WordVectors.load(self.resource).whole_words()
        return whole.normalised() if self.normalise else whole

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of inputs and outputs."""
        return Vocabulary(self.vectors.words)

    @cached_property
    def _release_table(self) -> WeightCache:
        """A cache of the weights of recent words, from which publications sample."""
        return WeightCache()

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, times the distance of the words; the number of words is not protected."""
        return self.claim(epsilon, "L2 distance")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the sum over positions of Euclidean distances; infinite for texts of different lengths."""
        return self.vocabulary.distance(texts, pairs, self.vectors.between)
