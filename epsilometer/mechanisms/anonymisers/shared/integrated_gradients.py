"""Integrated gradients (Sundararajan et al. 2017) of a transformer's logit, at its word embeddings.

For a text with the embeddings e of its n pieces and baselines b, the piece i gets the sum over dimensions of
(e_i - b_i) times the mean gradient of F, the logit of the predicted class, along the line from b to e; computed by
captum's LayerIntegratedGradients with Gauss-Legendre nodes. The baseline is padding between the special tokens, which
are as in the text. The layer is that of the words alone (`get_input_embeddings`): in RoBERTa padding would change the
positions as well, so F at the baseline is computed on the text's own positions too.

The pieces' scores must add up to F(e) - F(b) (completeness). Where they miss it by more than a tolerance, the steps are
doubled, as long as they are at most MOST_STEPS.
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

MOST_STEPS = 100  # of a sharp network some texts miss at any number, and each doubling costs as much as all before
MULTIPLE = 4  # pieces: texts are padded to multiples, so that few shapes occur
# Pieces of a pass, on a processor as many as fill it. Constants, since kernels differ by shape.
PIECES = {"cpu": 1536, "cuda": 1 << 17}


class _Pieces(NamedTuple):
    """A text's pieces: their ids, which of them are special, and the token of the text that each belongs to, or -1."""

    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    owners: NDArray[np.int64]


def integrated_gradients(
    classifier: Any, cut: Sequence[Spans], target: NDArray[np.integer], *, steps: int, tolerance: float
) -> tuple[list[dict[str, float]], NDArray[np.bool_]]:
    """The score of each word of n texts, and of which texts the scores still miss completeness: bool [n].

    classifier: a transformer (`network`, `tokenizer`, `longest`); target: [n] the classes whose logit is meant. A
    text's scores do not depend on the other texts: every pass has a shape that the text's length alone decides.
    """
    pieces = _pieces(classifier, cut)
    scores: list[NDArray[np.float64]] = [np.zeros(0)] * len(cut)
    missed = list(range(len(cut)))
    while missed and steps <= MOST_STEPS:
        left, missed = np.array(missed, np.int64), []
        for i, of_pieces, difference in _each(classifier.network, pieces, target, left=left, steps=steps):
            scores[i] = of_pieces
            # Below the grid that logits are rounded to there is nothing to explain.
            if abs(of_pieces.sum() - difference) > max(tolerance * abs(difference), 1 / GRID):
                missed.append(i)
        steps *= 2
    incomplete = np.zeros(len(cut), bool)
    incomplete[missed] = True
    return [_by_word(one, part, score) for one, part, score in zip(cut, pieces, scores, strict=True)], incomplete


def _each(
    network: Any, pieces: Sequence[_Pieces], target: NDArray[np.integer], *, left: NDArray[np.int64], steps: int
) -> Iterator[tuple[int, NDArray[np.float64], float]]:
    """Of each text in `left`: its number, the scores of its pieces, and what they must add up to."""
    widths = np.array([-(-len(pieces[i].ids) // MULTIPLE) * MULTIPLE for i in left])
    for width in np.unique(widths):
        rows = max(1, PIECES[network.device.type] // int(width))
        together = max(1, rows // steps)
        members = left[widths == width]
        for start in range(0, len(members), together):
            batch = members[start : start + together]
            filled = np.resize(batch, together)
            scores, differences = _scores(network, [pieces[i] for i in filled], target[filled], (width, steps, rows))
            for i, of_pieces, difference in zip(batch, scores, differences, strict=False):
                yield int(i), of_pieces, float(difference)


def _scores(
    network: Any, pieces: Sequence[_Pieces], target: NDArray[np.integer], shape: tuple[int, int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The [n, width] scores of texts' pieces, and [n] what each text's must add up to."""
    import torch
    from captum.attr import LayerIntegratedGradients

    width, steps, rows = shape
    device, padding = network.device, network.config.pad_token_id or 0
    ids, frame, attend = (np.full((len(pieces), width), value) for value in (padding, padding, 0))
    for row, part in enumerate(pieces):
        here = slice(len(part.ids))
        ids[row, here], frame[row, here], attend[row, here] = part.ids, np.where(part.special, part.ids, padding), 1
    inputs, baselines, mask = (torch.from_numpy(array).to(device) for array in (ids, frame, attend))
    layer = network.get_input_embeddings()

    def forward(inputs: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = network(input_ids=inputs, attention_mask=mask).logits
        return logits

    chosen = torch.from_numpy(np.asarray(target, np.int64)).to(device)
    gradients = LayerIntegratedGradients(forward, layer).attribute(
        inputs,
        baselines=baselines,
        target=chosen,
        additional_forward_args=mask,
        n_steps=steps,
        internal_batch_size=max(rows, len(pieces)),
    )
    with torch.inference_mode():
        at_text = forward(inputs, mask)
        instead = layer(baselines)
        hook = layer.register_forward_hook(lambda *_: instead)
        try:
            at_baseline = forward(inputs, mask)
        finally:
            hook.remove()
        difference = (at_text - at_baseline).double().gather(1, chosen[:, None])[:, 0]
    return gradients.detach().double().sum(-1).cpu().numpy(), difference.cpu().numpy()


def _pieces(classifier: Any, cut: Sequence[Spans]) -> list[_Pieces]:
    encoded = classifier.tokenizer(
        [one.text for one in cut],
        truncation=True,
        max_length=classifier.longest,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    return [
        _Pieces(np.array(ids, np.int64), np.array(special, bool), _owners(one, np.array(offsets), np.array(special)))
        for one, ids, special, offsets in zip(
            cut, encoded["input_ids"], encoded["special_tokens_mask"], encoded["offset_mapping"], strict=True
        )
    ]


def _owners(one: Spans, offsets: NDArray[np.int64], special: NDArray[np.int64]) -> NDArray[np.int64]:
    """The token that holds a piece's last character; -1 for none.

    By the last one: to some tokenisers the space before a word is part of it.
    """
    last = offsets[:, 1] - 1
    owners = np.searchsorted(np.array(one.starts, np.int64), last, side="right") - 1
    ends = np.array([*one.ends, 0], np.int64)  # the last is that of no token
    return np.where((special == 0) & (owners >= 0) & (last < ends[owners]), owners, -1)


def _by_word(one: Spans, pieces: _Pieces, scores: NDArray[np.float64]) -> dict[str, float]:
    """The sum of the scores of each word's pieces, over all its occurrences."""
    belongs = pieces.owners >= 0
    of_tokens = np.bincount(pieces.owners[belongs], scores[: len(belongs)][belongs], minlength=len(one))
    return {word: float(of_tokens[list(places)].sum()) for word, places in one.places.items()}
