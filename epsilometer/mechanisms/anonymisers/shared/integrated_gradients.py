"""Integrated gradients (Sundararajan et al. 2017) of a transformer's logit with respect to word embeddings.

Let e be the embeddings of a text's n pieces, b the baseline, and F the logit of the predicted class. The score of piece
i is the sum over dimensions of (e_i - b_i) times the mean gradient of F along the line from b to e, computed at
Gauss-Legendre nodes. Scores agree with captum's LayerIntegratedGradients to 1e-5; this code takes one pass over all
nodes, and differentiates only with respect to the embeddings. The baseline is padding between the text's special
tokens. Only the word embeddings change along the line (`get_input_embeddings`). In RoBERTa padding would also change
positions, so F(b) is computed with the text's positions.

The sum of the scores should equal F(e) - F(b) (completeness). If it differs by more than a tolerance, the number of
steps is doubled, up to MOST_STEPS. PUBLISHED_STEPS is captum's default. STEPS was chosen on 24 generated reviews with a
fine-tuned network. At 16 steps the scores of 23 reviews are complete within 5 %. In all 24 reviews the words with a
positive score and their order are the same as at 50 steps. At 12 steps these words and their order are the same in 22
reviews, and at 8 steps in 17.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans
from epsilometer.models.logits import GRID

if TYPE_CHECKING:
    from torch import Tensor

STEPS, PUBLISHED_STEPS = 16, 50
MOST_STEPS = 100  # limit, since some texts never become complete, and each doubling costs as much as all earlier passes
# Largest number of pieces in a pass, enough to keep a whole CPU busy; a pass has fewer if memory is short. The numbers
# are fixed, because torch's kernels, and so the rounding of scores, depend on the shape of a pass.
PIECES = {"cpu": 1536, "cuda": 1 << 17}
# Lengths are padded to multiples of this, so that few shapes occur on a GPU, where texts of similar length share a
# pass. On the CPU a pass contains one text, without padding.
MULTIPLE = {"cpu": 1, "cuda": 4}


class _Pieces(NamedTuple):
    """A text's n pieces: their ids, True for special ones, and the index of each piece's token (-1 for none)."""

    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    owners: NDArray[np.int64]


def integrated_gradients(
    classifier: Any, cut: Sequence[Spans], *, steps: int, tolerance: float
) -> tuple[list[dict[str, float]], NDArray[np.bool_]]:
    """Return the score of each word of n texts, and bool [n], True for texts whose scores are not complete.

    classifier: a transformer with `network`, `tokenizer`, `longest` and `memory`. A text's scores do not depend on the
    other texts, since the shape of every pass depends only on the text's length.
    """
    pieces = _pieces(classifier, cut)
    target, differences = np.zeros(len(cut), np.int64), np.zeros(len(cut))
    for members, line in _lines(classifier, pieces, np.arange(len(cut)), rows=2):
        ends = line.ends()[: len(members)]
        target[members] = np.round(ends[:, 0] * GRID).argmax(axis=1)
        differences[members] = (ends[:, 0] - ends[:, 1])[np.arange(len(members)), target[members]]
    # Differences below 1 / GRID, the step to which logits are rounded, are not significant.
    allowed = np.maximum(tolerance * np.abs(differences), 1 / GRID)
    scores: list[NDArray[np.float64]] = [np.zeros(0)] * len(cut)
    missed = np.arange(len(cut))
    while len(missed) and steps <= MOST_STEPS:
        for members, line in _lines(classifier, pieces, missed, rows=steps):
            for i, of_pieces in zip(members, line.scores(target, steps), strict=False):
                scores[i] = of_pieces
        totals = np.array([scores[i].sum() for i in missed])
        missed = missed[np.abs(totals - differences[missed]) > allowed[missed]]
        steps *= 2
    incomplete = np.zeros(len(cut), bool)
    incomplete[missed] = True
    return [_by_word(spans, part, score) for spans, part, score in zip(cut, pieces, scores, strict=True)], incomplete


def _lines(
    classifier: Any, pieces: Sequence[_Pieces], left: NDArray[np.int64], *, rows: int
) -> Iterator[tuple[NDArray[np.int64], _Line]]:
    """Yield the texts in `left` in batches: their indices, and their `_Line`.

    Batches are filled by repeating texts, so that all passes of one width have the same shape. rows: number of rows
    that each text takes in a pass.
    """
    kind = classifier.network.device.type
    widths = np.array([-(-len(pieces[i].ids) // MULTIPLE[kind]) * MULTIPLE[kind] for i in left])
    for width in np.unique(widths):
        together = 1 if kind == "cpu" else max(1, _fitting(classifier, int(width)) // rows)
        members = left[widths == width]
        for start in range(0, len(members), together):
            batch = members[start : start + together]
            filled = np.resize(batch, together)
            yield batch, _Line(classifier, [pieces[i] for i in filled], filled, int(width))


class _Line:
    """The lines from baselines to n texts, all padded to one width.

    numbers: [n], indices of the texts.
    """

    def __init__(self, classifier: Any, pieces: Sequence[_Pieces], numbers: NDArray[np.int64], width: int) -> None:
        import torch

        network = classifier.network
        self.classifier, self.network, self.numbers, self.width = classifier, network, numbers, width
        padding = network.config.pad_token_id or 0
        ids, frame, attend = (np.full((len(pieces), width), value) for value in (padding, padding, 0))
        for row, part in enumerate(pieces):
            here = slice(len(part.ids))
            ids[row, here], frame[row, here], attend[row, here] = part.ids, np.where(part.special, part.ids, padding), 1
        self.ids, baselines, self.mask = (torch.from_numpy(array).to(network.device) for array in (ids, frame, attend))
        self.layer = network.get_input_embeddings()
        with torch.no_grad():
            self.begin, self.end = self.layer(baselines), self.layer(self.ids)

    def ends(self) -> NDArray[np.float64]:
        """Return the logits [n, 2, classes] of the texts and of their baselines."""
        import torch

        embedded = torch.stack([self.end, self.begin], 1).flatten(0, 1)
        rows = torch.arange(len(self.ids), device=embedded.device).repeat_interleave(2)

        def first(left: range) -> Tensor:
            part = slice(left.start, left.start + _fitting(self.classifier, self.width, 2))
            return self._logits(embedded[part], rows[part])

        with torch.inference_mode():
            logits = [done for _, done in self.classifier.memory.parts(range(len(rows)), first)]
            return torch.cat(logits).unflatten(0, (-1, 2)).double().cpu().numpy()

    def scores(self, target: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
        """Return the scores [n, width] of the pieces, with this number of nodes.

        target: index of the class to explain, for all texts.
        """
        import torch

        device = self.end.device
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        classes = torch.from_numpy(target[self.numbers]).to(device)
        every_row = torch.arange(len(self.ids), device=device).repeat_interleave(steps)
        every_place = torch.from_numpy((nodes + 1) / 2).to(self.end).repeat(len(self.ids))

        def first(left: range) -> Tensor:
            part = slice(left.start, left.start + _fitting(self.classifier, self.width))
            rows, places = every_row[part], every_place[part]
            way = self.end[rows] - self.begin[rows]
            embedded = (self.begin[rows] + places[:, None, None] * way).requires_grad_()
            total = self._logits(embedded, rows).gather(1, classes[rows, None]).sum()
            (slopes,) = torch.autograd.grad(total, embedded)
            return (slopes * way).sum(-1).double()

        slopes = [done for _, done in self.classifier.memory.parts(range(len(every_row)), first)]
        of_nodes = torch.cat(slopes).unflatten(0, (-1, steps)).cpu().numpy()
        return np.tensordot(of_nodes, weights / 2, (1, 0))

    def _logits(self, embedded: Tensor, rows: Tensor) -> Tensor:
        """Return the logits [m, classes] of the texts in these rows, with these embeddings [m, width, size]."""
        hook = self.layer.register_forward_hook(lambda *_: embedded)
        try:
            logits: Tensor = self.network(input_ids=self.ids[rows], attention_mask=self.mask[rows]).logits
        finally:
            hook.remove()
        return logits


def _fitting(classifier: Any, width: int, least: int = 1) -> int:
    """Return the number of rows of a pass. The activations of all layers, which the gradient needs, must fit in memory.

    least: the smallest result, unless memory allows only fewer rows.
    """
    from epsilometer.models.memory import activations

    network = classifier.network
    each = 4 * activations(network.config, width) * (1 + network.config.num_hidden_layers)
    rows: int = classifier.memory.rows(each, max(least, PIECES[network.device.type] // width))
    return rows


def _pieces(classifier: Any, cut: Sequence[Spans]) -> list[_Pieces]:
    encoded = classifier.tokenizer(
        [spans.text for spans in cut],
        truncation=True,
        max_length=classifier.longest,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    return [
        _Pieces(np.array(ids, np.int64), np.array(special, bool), _owners(spans, np.array(offsets), np.array(special)))
        for spans, ids, special, offsets in zip(
            cut, encoded["input_ids"], encoded["special_tokens_mask"], encoded["offset_mapping"], strict=True
        )
    ]


def _owners(spans: Spans, offsets: NDArray[np.int64], special: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the token that contains each piece's last character; -1 for none.

    The last character is used, because for some tokenisers the space before a word is part of its first piece.
    """
    last = offsets[:, 1] - 1
    owners = np.searchsorted(np.array(spans.starts, np.int64), last, side="right") - 1
    ends = np.array([*spans.ends, 0], np.int64)  # the last entry is for pieces without a token
    return np.where((special == 0) & (owners >= 0) & (last < ends[owners]), owners, -1)


def _by_word(spans: Spans, pieces: _Pieces, scores: NDArray[np.float64]) -> dict[str, float]:
    """Return the score of each word: the sum of the scores of its pieces over all its occurrences."""
    belongs = pieces.owners >= 0
    of_tokens = np.bincount(pieces.owners[belongs], scores[: len(belongs)][belongs], minlength=len(spans))
    return {word: float(of_tokens[list(places)].sum()) for word, places in spans.places.items()}
