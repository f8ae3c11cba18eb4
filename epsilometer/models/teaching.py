"""Helpers for training an encoder-decoder to write given texts: decoder inputs, targets, and saving.

The word embeddings, which are also the vocabulary head, are frozen. Pieces that do not occur in the texts are never
targets, so the logits of most of the vocabulary are not computed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from epsilometer.models.locate import quiet_loading
from epsilometer.models.seq2seq import Seq2Seq

IGNORED = -100  # a target that is left out of the loss


class Targets:
    """Targets for training on some texts. Restricts the model's outputs to the pieces of these texts."""

    def __init__(self, model: Seq2Seq, texts: Sequence[str]) -> None:
        self._model = model
        met = {i for ids in model.tokens(texts) for i in ids} & set(model.outputs.tolist())
        model.outputs = np.array(sorted(met | {model.end}), np.int64)
        self._slot = torch.full((int(model.outputs.max()) + 1,), IGNORED)
        self._slot[torch.from_numpy(model.outputs)] = torch.arange(len(model.outputs))

    def of(self, ids: NDArray[np.integer], mask: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        """Return the decoder's inputs and targets for the token ids and mask [n, length] of texts.

        Inputs and targets are int64 [n, length]. Targets are indices into `model.outputs`. Padding, and pieces that
        `model.outputs` lacks, have the target IGNORED.
        """
        model = self._model
        labels = torch.from_numpy(np.where(mask == 1, ids, IGNORED))
        if (ids[:, 0] == model.start).all():  # the decoder does not write its start token
            labels = F.pad(labels[:, 1:], (0, 1), value=IGNORED)
        has_label = labels >= 0
        inputs = F.pad(torch.where(has_label, labels, model.pad)[:, :-1], (1, 0), value=model.start)
        present = has_label & (labels < len(self._slot))
        wanted = torch.where(present, self._slot[labels.clamp(0, len(self._slot) - 1)], IGNORED)
        return inputs.to(model.device), wanted.to(model.device)


def embeddings(model: Seq2Seq) -> set[int]:
    """Return the Python ids of the parameters of the word embeddings and the vocabulary head."""
    network = model.network
    shared = (network.get_input_embeddings(), network.get_output_embeddings())
    return {id(parameter) for part in shared for parameter in part.parameters()}


def save(model: Seq2Seq, out: Path) -> None:
    """Write the model's folder with its new weights. Clip bounds are left out: they were measured on old weights."""
    shutil.copytree(model.folder, out, dirs_exist_ok=True)
    (out / "bounds.json").unlink(missing_ok=True)
    with quiet_loading():
        model.network.requires_grad_(True).save_pretrained(out)
