"""The base of DP-MLM and its variant with insertions: the exponential mechanism at one mask of a private text.

The model reads the text and the text with a mask in it; its logits at the mask, clipped to a public range [low, high],
are utilities of sensitivity high - low whatever the text. So P(y | x) ~ exp(epsilon clip(logit_y) / (2 (high - low)))
changes by at most a factor e^epsilon between any two texts and masks (McSherry and Talwar 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.mechanism import TEXT, UNITS
from epsilometer.core.ragged import Ragged
from epsilometer.models.bounds import Clip, bounds
from epsilometer.models.embedded import masked_lm
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.text.words import words


@component
class MaskMechanism:
    """A mechanism that draws words at masks.

    resource: a masked language model by id or folder; clip: [low, high], by default the model's measured bounds.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(masked_lm)
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # one piece per word, except for pieces spelled alike

    resource: str | Path
    clip: Clip | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _model(self) -> MaskedLM:
        return MaskedLM(self.resource, self.precision)

    @cached_property
    def _clip(self) -> tuple[float, float]:
        return self.clip or bounds(self.resource)

    def tokens(self, text: str) -> list[str]:
        """As `HasTokens`: words."""
        return words(text)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """The number of words of both texts, infinite where it differs; 0 between texts of the same words."""
        split = [tuple(words(text)) for text in texts]
        number = {text: i for i, text in enumerate(dict.fromkeys(split))}
        length, which = np.array([len(text) for text in split]), np.array([number[text] for text in split])
        left, right = pairs.T
        apart = np.where(length[left] == length[right], length[left], np.inf)
        return np.where(which[left] == which[right], 0.0, apart)

    def largest_distance(self, epsilon: float) -> float:
        """1, the length of texts of one word."""
        return 1.0

    def logits(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Parts [words, pieces] of the logits before the clip: what `epsilometer bounds` measures."""
        split = [words(text) for text in texts]
        for number, text in enumerate(split):
            yield self._model.mask_logits(split, np.array([(number, word) for word in range(len(text))]))

    def log_laws(
        self,
        split: Sequence[Sequence[str]],
        places: NDArray[np.integer],
        epsilons: Sequence[float],
        inserted: bool = False,
    ) -> Iterator[NDArray[np.float64]]:
        """For each epsilon in turn the log-probabilities [n, pieces] of the model's pieces at n masks.

        split: texts as words; places: [n, 2], text and word that is masked, or that the mask follows (`inserted`).
        """
        low, high = self._clip
        utility = self._model.mask_logits(split, places, inserted).clip(low, high).astype(np.float64) - high
        for epsilon in epsilons:
            scaled = utility * (epsilon / (2 * (high - low)))  # 1 / T; at most 0, so exp cannot overflow
            yield scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))


def word_rows(split: Sequence[Sequence[str]], each: int = 1) -> tuple[Ragged, NDArray[np.int64]]:
    """`each` law rows for every word of texts in turn: each text's rows, and [rows, 2] their text and word."""
    lengths = np.array([each * len(text) for text in split], np.int64)
    rows = Ragged.from_lengths(np.arange(lengths.sum()), lengths)
    return rows, np.stack([rows.row_numbers, rows.positions // each], axis=1)
