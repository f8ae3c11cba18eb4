"""Predictions of a masked language model for a masked word, from the rest of the text.

Here the model does not see the masked word. In `masked_lm`, as in DP-MLM, the model reads the original text before the
masked copy. A text longer than the model's window is truncated to the window around the mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.logits import on_grid
from epsilometer.models.masked_lm import MaskedLM, PairInput

_TOGETHER = 1 << 14  # masks in memory at a time; the number does not change results
_MARKS = "Ġ▁"  # characters that mark the start of a word in some vocabularies


class Place(NamedTuple):
    """A range of characters: from start to end (exclusive) in text number `text`."""

    text: int
    start: int
    end: int


class FillMask(MaskedLM):
    """A masked language model that predicts one word at a time.

    The prediction at a place does not depend on the other places. Probabilities are over the V outputs of `MaskedLM`.
    Raises UserError as `MaskedLM` does.
    """

    def __init__(self, model: str | Path, precision: str = "float32") -> None:
        super().__init__(model, precision)
        alone = self._tokenizer.encode("a")
        inside = [i for i, sequence in enumerate(alone.sequence_ids) if sequence == 0]
        self._around = alone.ids[: inside[0]], alone.ids[inside[-1] + 1 :]

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Bool [V]: True for outputs that begin a word."""
        names = [self._tokenizer.id_to_token(int(i)) or "" for i in self.output_ids]
        if any(name[:1] in _MARKS for name in names if name):
            return np.array([name[:1] in _MARKS for name in names])
        prefix = getattr(self._tokenizer.model, "continuing_subword_prefix", None) or "##"
        return np.array([not name.startswith(prefix) for name in names])

    def likeliest(
        self, texts: Sequence[str], places: Sequence[Place], count: int, whole: bool = True
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the `count` most likely outputs at each place, and their log-probabilities: [n, count] each.

        Outputs are in order of falling probability. Equally likely outputs are in the order of the vocabulary.
        whole: True to return only outputs that begin a word.
        """
        inputs = self._masked(texts, places)
        allowed = np.flatnonzero(self.whole) if whole else np.arange(len(self.outputs))
        count = min(count, len(allowed))
        outputs, log_p = np.empty((len(places), count), np.int64), np.empty((len(places), count))
        for rows, laws in self._laws(inputs):
            some = laws[:, allowed]
            least = np.partition(some, -count, axis=1)[:, -count, None]
            for row, law, low in zip(rows, some, least, strict=True):
                near = np.flatnonzero(law >= low)
                best = near[np.argsort(-law[near], kind="stable")[:count]]
                outputs[row], log_p[row] = allowed[best], law[best]
        return outputs, log_p

    def draw(
        self,
        texts: Sequence[str],
        places: Sequence[Place],
        uniforms: NDArray[np.float64],
        allowed: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Sample one output at each place from the model's distribution over allowed outputs; return indices [n].

        uniforms: [n], one per sample, for the inverse CDF. allowed: bool [V].
        """
        inputs = self._masked(texts, places)
        among, outputs = np.flatnonzero(allowed), np.empty(len(places), np.int64)
        for rows, laws in self._laws(inputs):
            cdf = np.exp(laws[:, among]).cumsum(axis=1)
            for row, cumulative in zip(rows, cdf, strict=True):
                outputs[row] = among[
                    min(np.searchsorted(cumulative, uniforms[row] * cumulative[-1], side="right"), len(among) - 1)
                ]
        return outputs

    def log_probabilities(self, texts: Sequence[str], places: Sequence[Place]) -> NDArray[np.float64]:
        """Return [n]: the pseudo-log-probability of the word at each place.

        This is the sum of the log-probabilities of the word's pieces. Each piece is predicted with only that piece
        masked. The result is minus infinity for a word that the model cannot spell.
        """
        encodings = self._encoded(texts, places)
        inputs, owner, output = [], [], []
        totals = np.zeros(len(places))
        for number, place in enumerate(places):
            ids, first, last = encodings[place]
            wanted = np.searchsorted(self.output_ids, ids[first:last])
            wanted = np.minimum(wanted, len(self.output_ids) - 1)
            if last == first or (self.output_ids[wanted] != ids[first:last]).any():
                totals[number] = -np.inf
                continue
            for piece in range(first, last):
                inputs.append(self._input([*ids[:piece], self._frame.mask, *ids[piece + 1 :]], piece))
                owner.append(number)
            output += wanted.tolist()
        owners, outputs = np.array(owner, np.int64), np.array(output, np.int64)
        each = np.empty(len(inputs))
        for rows, laws in self._laws(inputs):
            each[rows] = laws[np.arange(len(rows)), outputs[rows]]
        np.add.at(totals, owners, each)
        return totals

    def _masked(self, texts: Sequence[str], places: Sequence[Place]) -> list[PairInput]:
        """Return each place's text, with all pieces of the word there replaced by one mask."""
        encodings = self._encoded(texts, places)
        inputs = []
        for place in places:
            ids, first, last = encodings[place]
            inputs.append(self._input([*ids[:first], self._frame.mask, *ids[last:]], first))
        return inputs

    def _encoded(self, texts: Sequence[str], places: Sequence[Place]) -> dict[Place, tuple[list[int], int, int]]:
        """Return, by place: the token ids of its text, and the start and end (exclusive) of the word's tokens."""
        wanted = sorted({place.text for place in places})
        encodings = self._tokenizer.encode_batch([texts[i] for i in wanted], add_special_tokens=False)
        result = {}
        by_text = dict(zip(wanted, encodings, strict=True))
        for text, some in groupby(sorted({*places}), key=lambda place: place.text):
            ids = by_text[text].ids
            starts, ends = np.array(by_text[text].offsets, np.int64).reshape(-1, 2).T
            for place in some:
                inside = np.flatnonzero((starts < place.end) & (ends > place.start))
                first, last = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
                result[place] = ids, first, last
        return result

    def _input(self, ids: list[int], mask: int) -> PairInput:
        before, after = self._around
        room = self.window - len(before) - len(after)
        if len(ids) > room:
            start = max(0, min(mask - room // 2, len(ids) - room))
            ids, mask = ids[start : start + room], mask - start
        tokens = [*before, *ids, *after]
        return PairInput(tokens, np.zeros(len(tokens), np.int64), len(before) + mask)

    def _laws(self, inputs: Sequence[PairInput]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield indices of some inputs, and log-probabilities [indices, V] for them. Equal inputs are computed once."""
        number: dict[tuple[int, ...], int] = {}
        which = np.array([number.setdefault((row.mask, *row.ids), len(number)) for row in inputs], np.int64)
        order = np.argsort(which, kind="stable")
        _, first = np.unique(which[order], return_index=True)
        same = np.split(order, first[1:]) if inputs else []
        for start in range(0, len(same), _TOGETHER):
            part = same[start : start + _TOGETHER]
            for members, logits in self._model.logits([inputs[rows[0]] for rows in part]):
                laws = on_grid(logits, self._folder).double().log_softmax(-1).cpu().numpy()
                rows = [part[i] for i in members]
                yield np.concatenate(rows), np.repeat(laws, [len(some) for some in rows], axis=0)
