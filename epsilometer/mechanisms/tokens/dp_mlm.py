"""DP-MLM: replaces each word by a sample from a masked language model (Meisenbacher et al., Findings of ACL 2024).

In plain words it replaces each word by another, chosen at random among words that a language model expects in its
place.

For word i of text x the model reads x, a separator, and x with word i masked, and computes logits over its vocabulary
at the mask. The logits are clipped to a public range [low, high]. With Delta = high - low and T = 2 Delta / epsilon,

    P(y | x, i) = softmax(clip(logits) / T)_y.

This is the exponential mechanism with utility clip(logit) of sensitivity Delta (McSherry and Talwar 2007). For one
word, P(y | x, i) <= e^epsilon P(y | x', j) for any texts x, x' and words i, j. But every word's law depends on the
whole private text, so changing one word can change all laws. For whole texts of n words the claim is therefore
n * epsilon. There is no claim between texts of different lengths, since the output has as many words as the input.

Departures from the reference code (sjmeis/DPMLM 3ce9390): stop-words, numbers and case are not passed through. If a
text is long, the model reads a window of subwords centred on the word. The reference code indexes subwords by word
number, so it leaves some words of long texts unmasked. Clip bounds are stored with the model that they were measured
on. Words are sampled from the model's whole vocabulary of printable pieces, a public set.

A model with token types, such as BERT, is told which of the two copies of x a token belongs to, as in training. In the
reference code only the batched path passes token types. The word-by-word path omits token types, so it computes other
logits for such models (the default model, RoBERTa, has no token types). `token_types: none` omits them, too. The claim
holds with and without token types, since it only needs clipped logits.

Two options of the reference code, `stop_words: kept` and `layout: kept` (punctuation, capitals and spacing), release
parts of the private text, so nothing is claimed with either option. An unchanged stop-word has probability 1 in its
law. The layout is not part of the law, but the likelihood attack sees it in the text.

`as_published: true` sets both options. The reference code sets both by default, and so did the published comparison,
TeDA. The published claim, epsilon per word, is stated so that it can be refuted. A stop-word is released unchanged with
probability 1. If the stop-word is not a piece of the model, no other word is ever replaced by it. So no finite epsilon
holds. The window of subwords and the vocabulary are those described above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.masked import MaskMechanism, word_rows
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.text.words import STOP_WORDS, lay_out, words, write


@component
class DPMLM(MaskMechanism, OneOfGrid):
    """The DP-MLM mechanism.

    resource, clip, precision: as in `MaskMechanism`.
    token_types:               `given` to pass token types to a model that has them.
    stop_words:                `kept` to leave English stop-words unchanged, without a claim.
    layout:                    `kept` to leave punctuation, capitals and spacing unchanged, without a claim.
    as_published:              True to set `stop_words` and `layout` to `kept` and still make the claim.
    """

    stop_words: Literal["privatised", "kept"] = "privatised"
    layout: Literal["normalised", "kept"] = "normalised"
    token_types: Literal["given", "none"] = "given"
    as_published: bool = False

    @property
    def _keeps_stop_words(self) -> bool:
        return self.as_published or self.stop_words == "kept"

    @property
    def _keeps_layout(self) -> bool:
        return self.as_published or self.layout == "kept"

    @cached_property
    def _model(self) -> MaskedLM:
        return MaskedLM(self.resource, self.precision, token_types=self.token_types == "given")

    @cached_property
    def inputs(self) -> list[str]:
        """Test texts of one word: the model's pieces that are words."""
        return [piece for piece in self._model.outputs if words(piece) == [piece]]

    @property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the model's pieces, then unchanged stop-words that are not pieces."""
        pieces = self._model.outputs
        return [*pieces, *(word for word, number in self._unchanged.items() if number >= len(pieces))]

    @cached_property
    def _unchanged(self) -> dict[str, int]:
        """The index of the output equal to each word that stays unchanged."""
        if not self._keeps_stop_words:
            return {}
        pieces = self._model.outputs
        number = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
        others = iter(range(len(pieces), len(pieces) + len(STOP_WORDS)))
        return {word: number[word] if word in number else next(others) for word in sorted(STOP_WORDS)}

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each word; n epsilon for texts of n words (`distance`).

        None if stop-words or the layout stay unchanged. In the published form the claim is false.
        """
        if not self.as_published and (self._keeps_stop_words or self._keeps_layout):
            return None
        return Guarantee(epsilon, Granularity.TOKEN, Neighbours.SAME_LENGTH)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of each text."""
        split = [words(text) for text in texts]
        rows, places = word_rows(split)
        outputs = len(self.output_texts)

        def log_probabilities(wanted: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            stays = np.array([self._unchanged.get(split[text][word], -1) for text, word in places[wanted]], np.int64)
            for law in self.log_laws(split, places[wanted[stays < 0]], epsilons):
                yield _with_unchanged(law, stays, outputs) if self._keeps_stop_words else law

        if self._model.device == "cpu" or self._keeps_stop_words:
            return Laws(rows, outputs, log_probabilities)
        entries, draw = partial(self.entries, split, places), partial(self.draw, split, places)
        return Laws(rows, outputs, log_probabilities, entries=entries, draw=draw)

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return readings, as in `HasReadings`: the state at the mask of each sampled word, in the order of `laws`."""
        return self._model.states(*self._masks(texts))

    def recall(self, texts: Sequence[str], readings: NDArray[np.float32]) -> None:
        """Use cached readings, as in `HasReadings`."""
        self._model.recall(*self._masks(texts), readings)

    def _masks(self, texts: Sequence[str]) -> tuple[list[list[str]], NDArray[np.int64]]:
        """Return the words of each text, and the indices (text, word) of each word that is replaced, [rows, 2]."""
        split = [words(text) for text in texts]
        places = word_rows(split)[1]
        goes = np.array([split[text][word] not in self._unchanged for text, word in places], bool)
        return split, places[goes]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Each word of each distinct text takes one forward pass."""
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts])
        outputs = sample(self.laws(list(distinct)), source, epsilons, noises)
        return [Rewrites(self.write(texts, units), units) for units in outputs]

    @property
    def text_is_units(self) -> bool:
        """True if the sampled pieces determine the text (`Writes`)."""
        return not self._keeps_layout

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the sampled pieces joined by single spaces, or in the source's layout."""
        named = self.output_texts
        rows = [[named[u] for u in units.row(i)] for i in range(len(texts))]
        if not self._keeps_layout:
            return [write(row) for row in rows]
        return [lay_out(text, row) for text, row in zip(texts, rows, strict=True)]


def _with_unchanged(law: NDArray[np.float64], stays: NDArray[np.int64], outputs: int) -> NDArray[np.float64]:
    """Return the laws [n, outputs] of all words.

    law: the laws of the sampled words; stays: [n], output of each word that stays unchanged, -1 for sampled words.
    """
    whole = np.full((len(stays), outputs), -np.inf)
    whole[stays < 0, : law.shape[1]] = law
    staying = np.flatnonzero(stays >= 0)
    whole[staying, stays[staying]] = 0
    return whole
