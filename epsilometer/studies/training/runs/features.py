"""Hidden states of a frozen network, one per text. They are the inputs of the trainable layers in `heads`.

All layers below the trained ones are frozen and in evaluation mode, without dropout. So a text's state is the same in
every epoch and is computed once. The paper (cited in `heads`) uses transformers' training mode, which leaves dropout
on.

BERT:   the last hidden state of the first token, [CLS], computed by `models/bert.py`. A BERT with an activation other
        than the exact GELU is computed by transformers.
GPT-2:  the state of the last token that is not padding, before the last norm, computed by transformers. A tokeniser
        without a padding token pads with the end token, as in the paper. Attention is causal, so padding after a text
        cannot change its state.

A text is truncated after `length` tokens, including special tokens. A special token that is written in a text counts as
plain characters. A state depends on its text alone, not on the other texts of the batch: a text's length determines its
batch's width, and the width determines the batch's number of rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.models.bounds import weights_hash
from epsilometer.models.devices import resolved
from epsilometer.models.locate import quiet_loading
from epsilometer.runtime.progress import track
from epsilometer.runtime.resuming import Parts
from epsilometer.studies.training.runs.heads import BERT, GPT2, last_layers
from epsilometer.studies.training.runs.tokens import Tokens, attention, last_place, padding, window

BLOCK = 512  # texts between two writes: the most work that a killed process loses
ROWS = {"cpu": 8, "cuda": 1024}  # texts per batch for transformers, if they fit into memory
MULTIPLE = 8  # a batch's width is a multiple of this number of tokens
_STATES = "states.npy"  # the file of a block
LAYERS, ABOUT = "last_layers.safetensors", "about.json"  # files in a folder of features, in addition to SPLIT.npy


class Frozen(Tokens):
    """A BERT or GPT-2 without its trainable layers, and its tokeniser.

    precision: "float32", "bfloat16" or "auto"; it may change results.
    width:     the number of dimensions of a state.

    Raises UserError as `Tokens` does, and if the model lacks a layer.
    """

    def __init__(self, model: str | Path, length: int, precision: str = "float32") -> None:
        super().__init__(model, length)
        self.precision, self.device = precision, resolved()
        self._network = _network(self.folder, self.kind, precision, self.device)
        self.width = self._network.width

    def states(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the states [n, width] of texts. Raises UserError as `ids` does, and if a state is not finite."""
        if not texts:
            return np.empty((0, self.width), np.float32)
        states = self._network(self.ids(texts))
        if not np.isfinite(states).all():
            raise UserError(
                f"the model in {self.folder} returns states that are not finite; use precision: float32", "EPS-T001"
            )
        return states


def write(frozen: Frozen, splits: Mapping[str, Sequence[str]], folder: Path, begun: Parts) -> None:
    """Write a folder of features: SPLIT.npy with the states of each split, float32 [n, width], LAYERS and ABOUT.

    ABOUT contains kind, width, length, the names of the head's tensors in the checkpoint, and the numbers of texts and
    of truncated texts per split. A split without texts gets no file. States are written block by block.

    begun: the blocks that an earlier run with the same texts, weights and settings finished.
    Raises UserError, before any work, if a text has no tokens.
    """
    measured = {split: frozen.lengths(texts, f" of {split}") for split, texts in splits.items()}
    layers = last_layers(frozen.folder)
    layers.save(folder / LAYERS)
    counts = {}
    for split, texts in splits.items():
        lengths, cut = measured[split]
        counts[split] = {"texts": len(texts), "cut": int(cut.sum())}
        order = np.argsort(lengths, kind="stable")  # texts of similar length fill batches
        with tables.ArrayWriter(folder / f"{split}.npy", len(texts)) as writer:
            for rows, states in _blocks(frozen, texts, order, begun=begun, split=split):
                writer.write(rows, states)
    about = {"kind": frozen.kind, "width": frozen.width, "length": frozen.length, "tensors": sorted(layers.tensors)}
    tables.write_json(about | {"splits": counts}, folder / ABOUT)


def write_tokens(tokens: Tokens, splits: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Write a folder of token ids: SPLIT.npy of each split, [n, length] (`Tokens.padded`), and ABOUT as `write` does.

    A training of more than the head needs token ids, because it changes the states. It loads the model again, so ABOUT
    contains hashes of the model's files. Raises UserError if a text has no tokens.
    """
    counts = {}
    for split, texts in splits.items():
        cut = tokens.lengths(texts, f" of {split}")[1]
        counts[split] = {"texts": len(texts), "cut": int(cut.sum())}
        tables.write_array(tokens.padded(texts), folder / f"{split}.npy")
    about = {"kind": tokens.kind, "width": tokens.length, "length": tokens.length, "model": _of_model(tokens)}
    tables.write_json(about | {"splits": counts}, folder / ABOUT)


def read(folder: Path, split: str) -> NDArray[Any]:
    """Return the states [n, width] or token ids [n, length] of a split, mapped from disk.

    Raises UserError if the split is missing.
    """
    path = folder / f"{split}.npy"
    if not path.is_file():
        raise UserError(
            f"{path} does not exist; run the stage `features`, which writes it for each split of a data set", "EPS-T002"
        )
    states: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return states


def _of_model(tokens: Tokens) -> str:
    """Return hashes of a model's weights, configuration and tokeniser."""
    files = [(tokens.folder / name).read_bytes() for name in ("config.json", "tokenizer.json")]
    return " ".join([weights_hash(tokens.folder), *(hashlib.sha256(content).hexdigest() for content in files)])


def _blocks(
    frozen: Frozen, texts: Sequence[str], order: NDArray[np.int64], *, begun: Parts, split: str
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield row numbers and states, block by block. Blocks finished by an earlier run are read from disk."""
    starts = range(0, len(order), BLOCK)
    for start in track(starts, len(starts), "states"):
        rows, name = order[start : start + BLOCK], f"{split}-{start}"
        if name not in begun:
            with begun.part(name) as folder:
                tables.write_array(frozen.states([texts[i] for i in rows]), folder / _STATES)
        yield rows, np.load(begun.folder / name / _STATES, allow_pickle=False)


class _BertStates:
    """States of the first token of a BERT, computed by this project's own code."""

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        from epsilometer.models.bert import Bert

        self._bert = Bert(folder, precision, device)
        self.width = self._bert.width

    def __call__(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        segments = [np.zeros(len(row), np.int64) for row in ids]
        states: NDArray[np.float32] = self._bert.states(ids, segments, [0] * len(ids)).cpu().numpy()
        return states


class _ByTransformers:
    """States computed by transformers: of a BERT's first token, or of a GPT-2's last token before the last norm."""

    def __init__(self, folder: Path, kind: str, precision: str, device: str) -> None:
        import torch

        from epsilometer.models.memory import Memory

        self._network, self._memory = _load(folder, kind, precision, device), Memory(device, folder.name)
        if kind == GPT2:
            self._network.ln_f = torch.nn.Identity()
        self._kind, self._device, self._pad = kind, device, padding(folder)
        self.width = int(self._network.config.hidden_size)
        self._window = window(folder)

    def __call__(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        states = np.empty((len(ids), self.width), np.float32)
        widths = np.array([min(self._window, -(-len(row) // MULTIPLE) * MULTIPLE) for row in ids])
        for width in np.unique(widths):
            first = partial(self._first_batch, ids, int(width))
            for members, some in self._memory.parts(np.flatnonzero(widths == width), first):
                states[members] = some
        return states

    def _first_batch(self, ids: Sequence[Sequence[int]], width: int, members: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the states of the first members, one batch of them. Texts are padded on the right."""
        import torch

        from epsilometer.models.memory import activations

        each = self._network.dtype.itemsize * activations(self._network.config, width)
        size = self._memory.rows(each, ROWS[self._device])
        tokens = np.full((size, width), self._pad, np.int64)
        there, places = np.zeros(tokens.shape, bool), np.zeros(size, np.int64)
        there[:, 0] = True  # also in empty rows, because attention to no token gives NaN
        batch = [ids[i] for i in members[:size]]
        for row, tokens_of_text in enumerate(batch):
            tokens[row, : len(tokens_of_text)], there[row, : len(tokens_of_text)] = tokens_of_text, True
            if self._kind == GPT2:
                places[row] = last_place(tokens_of_text, self._pad)
        mask = torch.from_numpy(attention(there, self._kind == GPT2)).to(self._network.dtype)
        inputs = {"input_ids": torch.from_numpy(tokens), "attention_mask": mask}
        with torch.inference_mode():
            hidden = self._network(
                **{name: tensor.to(self._device) for name, tensor in inputs.items()}
            ).last_hidden_state
            chosen = hidden[torch.arange(len(batch)), torch.from_numpy(places[: len(batch)])]
        states: NDArray[np.float32] = chosen.float().cpu().numpy()
        return states


def _network(folder: Path, kind: str, precision: str, device: str) -> _BertStates | _ByTransformers:
    from epsilometer.models.bert import readable

    if kind == BERT and readable(folder):
        return _BertStates(folder, precision, device)
    return _ByTransformers(folder, kind, precision, device)


def _load(folder: Path, kind: str, precision: str, device: str) -> Any:
    """Load the network with transformers, in evaluation mode and without a pooler.

    Raises UserError, with the layer's name, if the checkpoint lacks a layer.
    """
    from epsilometer.models.bert import number_type

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise UserError(
            f"the BERT in {folder} has relative positions, which are not supported; give one with absolute positions",
            "EPS-T003",
        )
    with quiet_loading(folder):
        from transformers import AutoModel

        settings = {"add_pooling_layer": False} if kind == BERT else {}
        try:
            network, report = AutoModel.from_pretrained(
                folder,
                dtype=number_type(precision, device),
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **settings,
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise UserError(f"{folder} does not load as a {kind}: {str(error)[:300]}", "EPS-T004") from error
    if report["missing_keys"]:
        raise UserError(
            f"the {kind} in {folder} lacks {min(report['missing_keys'])}; give a whole checkpoint", "EPS-T005"
        )
    return network.eval().to(device)
