"""Inner products between the gradients of many texts, which suffice for the optimal adversary.

For the head alone, the products have closed forms after one forward pass per text (`heads`). For more tensors,
gradients are computed in blocks, and every pair of blocks is multiplied. A block is recomputed for every earlier block.
So only two blocks are in memory: 2 x 16 x d numbers for d parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from epsilometer.runtime.progress import track
from epsilometer.studies.training.runs.heads import BertHead, GptHead, Head
from epsilometer.studies.training.runs.shared_model import SharedModel

BLOCK = 16  # texts in a block
_COLUMNS = 1 << 16  # numbers whose products are summed in float32; such sums are added in float64


def gram(model: SharedModel, sequences: Sequence[Sequence[int]], labels: Sequence[int]) -> NDArray[np.float64]:
    """Return the inner products [n, n] of the gradients of n texts, without clipping and noise."""
    if model.tensors == "head":
        return head_of(model).gradients(states(model, sequences), np.asarray(labels)).gram()
    count = len(sequences)
    products = np.empty((count, count))
    starts = range(0, count, BLOCK)

    def block(start: int) -> NDArray[np.float32]:
        part = slice(start, start + BLOCK)
        return model.gradients(sequences[part], labels[part])

    for start in track(starts, len(starts), "gradients"):
        left = block(start)
        for other in range(start, count, BLOCK):
            right = left if other == start else block(other)
            inner = _inner(left, right)
            products[start : start + BLOCK, other : other + BLOCK] = inner
            products[other : other + BLOCK, start : start + BLOCK] = inner.T
    return products


def head_of(model: SharedModel) -> Head:
    """Return the trainable layers of a shared classifier, whose gradients have closed forms."""
    parameters = dict(model.network.named_parameters())
    kind = BertHead if model.architecture == "bert" else GptHead
    settings = {} if kind is BertHead else {"epsilon": model.network.config.layer_norm_epsilon}
    shapes = kind(np.empty(0, np.float32), 0, 0).shapes
    vector = torch.cat([parameters[name].detach().flatten() for name in shapes]).cpu().numpy()
    return kind(vector, model.words.shape[1], model.network.config.num_labels, **settings)


def states(model: SharedModel, sequences: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Return the head's input for each text, [n, width].

    The input is the state of the first token (BERT), or the last token's state before the final norm (GPT-2).
    """
    network = model.network
    seen: list[torch.Tensor] = []

    def record(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        place = 0 if model.architecture == "bert" else -1
        seen.append(inputs[0][:, place])

    layer = network.bert.pooler if model.architecture == "bert" else network.transformer.ln_f
    order = sorted(range(len(sequences)), key=lambda number: len(sequences[number]))
    batches = [
        same[start : start + BLOCK]
        for _, some in groupby(order, key=lambda number: len(sequences[number]))
        for same in [list(some)]
        for start in range(0, len(same), BLOCK)
    ]  # texts of a batch have one length, so that none is padded
    hook = layer.register_forward_pre_hook(record)
    try:
        with torch.inference_mode():
            for batch in track(batches, len(batches), "states"):
                network(input_ids=torch.tensor([list(sequences[number]) for number in batch], device=model.device))
    finally:
        hook.remove()
    return torch.cat(seen).cpu().numpy()[np.argsort(order)]


def _inner(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float64]:
    out = np.zeros((len(left), len(right)))
    for start in range(0, left.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        out += left[:, part] @ right[:, part].T
    return out
