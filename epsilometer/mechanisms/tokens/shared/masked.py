"""Base class of mechanisms that apply the exponential mechanism at a mask in a private text (DP-MLM and others).

The model reads the text, followed by the text with a mask in it. Its logits at the mask, clipped to a public range
[low, high], are utilities of sensitivity high - low. So P(y | x) ~ exp(epsilon clip(logit_y) / (2 (high - low)))
changes by a factor of at most e^epsilon between any two texts and masks (McSherry and Talwar 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.laws import log_softmax
from epsilometer.core.mechanism import TEXT, UNITS
from epsilometer.core.ragged import Ragged
from epsilometer.models.bounds import Clip, bounds
from epsilometer.models.embedded import masked_lm
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.text.words import words


@component
class MaskMechanism:
    """A mechanism that samples words at masks.

    resource: a masked language model by id or folder; clip: [low, high]; None: the model's measured bounds.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(masked_lm)
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # the text shows the pieces by their spelling

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
        """Return the words of the text."""
        return words(text)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return each pair's number of words; infinite if the numbers differ, and 0 if all words are equal."""
        split = [tuple(words(text)) for text in texts]
        number = {text: i for i, text in enumerate(dict.fromkeys(split))}
        length, which = np.array([len(text) for text in split]), np.array([number[text] for text in split])
        left, right = pairs.T
        apart = np.where(length[left] == length[right], length[left], np.inf)
        return np.where(which[left] == which[right], 0.0, apart)

    def logits(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Yield arrays [words, pieces] of unclipped logits, on which `epsilometer bounds` measures clip bounds."""
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
        """Yield for each epsilon the log-probabilities [n, pieces] of the model's pieces at n masks.

        split: words of the texts; places: [n, 2], indices of text and word. inserted: True to insert the mask after the
        word instead of replacing it.
        """
        low, high = self._clip
        # Clips in float64, as on other devices, since bounds would round differently in float32.
        utility = self._model.mask_logits(split, places, inserted).astype(np.float64).clip(low, high)
        for epsilon in epsilons:
            yield log_softmax(utility * (epsilon / (2 * (high - low))))  # 1 / T

    def draw(
        self,
        split: Sequence[Sequence[str]],
        places: NDArray[np.integer],
        rows: NDArray[np.integer],
        at: NDArray[np.integer],
        epsilons: Sequence[float],
        uniforms: Sequence[NDArray[np.float64]],
    ) -> list[NDArray[np.int64]]:
        """Sample as in `Laws.draw`, on the computing device. The law of a row is that of `log_laws` at places[row]."""
        import torch

        from epsilometer.models.generation import TokenLaw

        law = TokenLaw(*self._clip)
        starts = np.searchsorted(at, np.arange(len(rows) + 1))
        outputs = [np.empty(len(at), np.int64) for _ in epsilons]
        for members, logits in self._model.parts(split, places[rows]):
            counts = starts[1:][members] - starts[members]
            each = np.arange(counts.max(initial=0))
            own = each < counts[:, None]  # [rows, most samples per row]: False for padding
            number = np.where(own, starts[members][:, None] + each, 0)
            for out, epsilon, uniform in zip(outputs, epsilons, uniforms, strict=True):
                budgets = torch.full((len(members),), epsilon, dtype=torch.float64, device=logits.device)
                chosen = law.draw(logits, budgets, torch.from_numpy(uniform[number]).to(logits.device))
                out[number[own]] = chosen.cpu().numpy()[own]
        return outputs

    def entries(
        self,
        split: Sequence[Sequence[str]],
        places: NDArray[np.integer],
        rows: NDArray[np.integer],
        outputs: Sequence[NDArray[np.integer]],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return entries of laws as in `Laws.entries`, on the computing device."""
        import torch

        from epsilometer.models.generation import TokenLaw

        law, values = TokenLaw(*self._clip), [np.empty(len(rows)) for _ in epsilons]
        distinct, order, borders = _grouped(rows)
        for members, logits in self._model.parts(split, places[distinct]):
            wanted = [order[borders[i] : borders[i + 1]] for i in members]
            units = np.concatenate(wanted)
            place = torch.from_numpy(np.repeat(np.arange(len(members)), list(map(len, wanted)))).to(logits.device)
            for value, output, epsilon in zip(values, outputs, epsilons, strict=True):
                budgets = torch.full((len(members),), epsilon, dtype=torch.float64, device=logits.device)
                output_of = torch.from_numpy(output[units].astype(np.int64)).to(logits.device)
                value[units] = law.log_probabilities(logits, budgets)[place, output_of].cpu().numpy()
        return values


def _grouped(rows: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows, the indices of `rows` sorted by row, and the borders between rows in that order."""
    order = np.argsort(rows, kind="stable")
    distinct, first = np.unique(rows[order], return_index=True)
    return distinct, order, np.append(first, len(rows))


def word_rows(split: Sequence[Sequence[str]], each: int = 1) -> tuple[Ragged, NDArray[np.int64]]:
    """Return each text's law rows, `each` per word, and the indices (text, word) of each row, [rows, 2]."""
    lengths = np.array([each * len(text) for text in split], np.int64)
    rows = Ragged.from_lengths(np.arange(lengths.sum()), lengths)
    return rows, np.stack([rows.row_numbers, rows.positions // each], axis=1)
