"""DP-MLM: each word is replaced by a draw from a masked language model (Meisenbacher et al., Findings of ACL 2024).

For word i of text x the model reads x, a separator and x with word i masked, and gives logits over its vocabulary at
the mask. They are clipped to a public range [low, high]; with Delta = high - low and temperature T = 2 Delta / epsilon,

    P(y | x, i) = softmax(clip(logits) / T)_y.

This is the exponential mechanism with utility clip(logit) of sensitivity Delta (McSherry and Talwar 2007): for one
word, P(y | x, i) <= e^epsilon P(y | x', j) for any two texts. But every word's law sees the whole private text, so
changing one word can move all of them: for texts of n words as wholes the claim is n * epsilon, and between texts of
unlike numbers of words there is none, since the output has as many words as the input.

Departures from the released code (sjmeis/DPMLM 3ce9390): stop-words, numbers and case are not passed through; the
window is centred on the word in subwords (the release indexes subwords by word number and leaves words of long texts
unmasked); clip bounds come with the model that they were measured on; sampling is over the model's whole vocabulary of
printable pieces, a public set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from epsilometer.component import component
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language.bounds import bounds
from epsilometer.language.masked_lm import MaskedLM
from epsilometer.language.words import words, write
from epsilometer.laws import Laws, sample
from epsilometer.mechanism import Rewrites
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise


@component
class DPMLM:
    """resource: a masked language model by id or folder; clip: [low, high], by default the model's measured bounds."""

    embedded: ClassVar[str] = "minilm-mlm"

    resource: str | Path
    clip: tuple[float, float] | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    device: str = "cpu"

    @field_validator("clip")
    @classmethod
    def _ordered(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError("clip must be [low, high] with low < high")
        return value

    @cached_property
    def _model(self) -> MaskedLM:
        return MaskedLM(self.resource, self.precision, self.device)

    @cached_property
    def _clip(self) -> tuple[float, float]:
        return self.clip or bounds(self.resource)

    @cached_property
    def inputs(self) -> list[str]:
        """Texts of one word: the model's pieces that are words."""
        return [piece for piece in self._model.outputs if words(piece) == [piece]]

    @property
    def output_texts(self) -> Sequence[str]:
        """The model's pieces."""
        return self._model.outputs

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each word, whatever the text; n epsilon for texts of n words (`distance`)."""
        return Guarantee(epsilon, Granularity.TOKEN, Neighbours.SAME_LENGTH)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """The number of words of both texts, infinite where it differs."""
        length = np.array([len(words(text)) for text in texts])
        left, right = length[pairs[:, 0]], length[pairs[:, 1]]
        return np.where(left == right, left, np.inf)

    def laws(self, texts: Sequence[str]) -> Laws:
        """A row for each (text, word)."""
        split = [words(text) for text in texts]
        lengths = np.array([len(text) for text in split])
        rows = Ragged.from_lengths(np.arange(lengths.sum()), lengths)
        places = np.stack([rows.row_numbers, rows.positions], axis=1)

        def log_probabilities(wanted: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            low, high = self._clip
            utility = self._model.mask_logits(split, places[wanted]).clip(low, high).astype(np.float64) - high
            for epsilon in epsilons:
                scaled = utility * (epsilon / (2 * (high - low)))  # 1 / T; at most 0, so exp cannot overflow
                yield scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))

        return Laws(rows, len(self._model.outputs), log_probabilities)

    def logits(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Parts [words, pieces] of the logits before the clip: what `epsilometer bounds` measures."""
        split = [words(text) for text in texts]
        for number, text in enumerate(split):
            yield self._model.mask_logits(split, np.array([(number, word) for word in range(len(text))]))

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One epsilon of `rewrite_grid`."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """One forward pass for each word of each distinct text, whatever the number of trials and epsilons."""
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts])
        pieces = self._model.outputs
        drawn = sample(self.laws(list(distinct)), source, epsilons, noises)
        return [Rewrites([write(pieces[u] for u in units.row(i)) for i in range(len(texts))], units) for units in drawn]
