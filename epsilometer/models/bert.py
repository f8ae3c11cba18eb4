"""A compact BERT for inference: the encoder of Devlin et al. 2019 and its masked-language-model head.

There are two reasons not to use transformers. Each stage of the pipeline is a separate process, and importing
transformers' BERT can take longer than encoding a thousand short texts. And the results of transformers depend on how
texts are batched and padded.

Here the tokens of many texts are packed one after another. Operations on single tokens (the dense layers) process
slices of a fixed number of rows. Attention processes the texts of one exact length together. So only the last slice is
padded, and each number is computed by the same kernel on the same shape. The result for a text therefore does not
depend on the other texts, on their order, or on how the caller splits them. On the CPU, a test checks this independence
bit by bit. On CUDA the shapes are fixed in the same way, but no test checks the results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from epsilometer.core.errors import UserError
from epsilometer.models.dense import linear
from epsilometer.models.devices import resolved
from epsilometer.models.memory import Memory, activations
from epsilometer.runtime.progress import track

SLICE = {
    "cpu": 256,
    "cuda": 8192,
}  # rows of every matrix product in the layers; constant, since another shape may use another kernel
HEAD_SLICE = {"cpu": 64, "cuda": 1024}  # rows of every product with the vocabulary
BLOCK = {"cpu": 1024, "cuda": 65536}  # tokens at a time; fewer if memory is short; the number does not change results


class Affine(NamedTuple):
    """An affine map: weight [outputs, inputs], bias [outputs]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return linear(rows, self.weight, self.bias)


class Norm(NamedTuple):
    """Layer normalisation."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, rows: Tensor) -> Tensor:
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.epsilon)


class Layer(NamedTuple):
    """One transformer layer. `inputs` computes queries, keys and values in one product."""

    inputs: Affine
    mixed: Affine
    mixed_norm: Norm
    up: Affine
    down: Affine
    norm: Norm


class VocabularyHead(NamedTuple):
    """The masked-language-model head. Its `decoder` has only the requested vocabulary entries."""

    transform: Affine
    norm: Norm
    decoder: Affine


def readable(folder: Path) -> bool:
    """Return True if this module can run the checkpoint in `folder`: a BERT with absolute positions and exact GELU."""
    path = folder / "config.json"
    if not path.is_file() or not (folder / "model.safetensors").is_file():
        return False
    config = json.loads(path.read_text())
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
    )


def number_type(precision: str, device: str) -> torch.dtype:
    """Return the number type to compute in. "auto" is bfloat16 if the hardware multiplies it natively, else float32.

    "float64" is for results that must be equal on every processor. Results of kernels differ a billion times less in
    float64 than in float32, and rounding to a grid removes the differences. Raises UserError for another precision, and
    for a device that `devices.resolved` refuses.
    """
    device = resolved(device)
    if precision == "auto":
        # These are private functions of torch. A version without them counts as a processor without native bfloat16.
        probes = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
        if device == "cuda":
            native = torch.cuda.get_device_capability() >= (8, 0)  # older devices only emulate bfloat16
        else:
            native = any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
        precision = "bfloat16" if native else "float32"
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
    if precision not in kinds:
        raise UserError(f"precision must be float32, float64, bfloat16 or auto, got {precision!r}", "EPS-N004")
    return kinds[precision]


class Bert:
    """A BERT checkpoint (config.json and model.safetensors in `folder`), ready to run.

    width:    size of the hidden states.
    window:   largest number of tokens in a sequence.
    entries:  size of the vocabulary.
    """

    def __init__(self, folder: Path, precision: str = "float32", device: str | None = None) -> None:
        config = json.loads((folder / "config.json").read_text())
        self.width: int = config["hidden_size"]
        self.window: int = config["max_position_embeddings"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon: float = config.get("layer_norm_eps", 1e-12)
        self._device = device = resolved(device)
        self._type = number_type(precision, device)
        self._memory, self._config = Memory(device, folder.name), SimpleNamespace(**config)
        # The first BERT checkpoints call a norm's weight and bias gamma and beta.
        self._weights = {
            name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias"): tensor
            for name, tensor in load_file(folder / "model.safetensors", device=device).items()
        }
        self._embeddings = {
            name: self._weights[f"embeddings.{name}_embeddings.weight"].to(self._type)
            for name in ("word", "position", "token_type")
        }
        self.entries = len(self._embeddings["word"])
        self._embedding_norm = self._norm("embeddings.LayerNorm", self._type)
        self._layers = [self._layer(f"encoder.layer.{i}") for i in range(config["num_hidden_layers"])]

    def means(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the mean of the last hidden states of each sequence of token ids: float32 [sequences, width].

        At precision "float64" the result is float64.
        """
        kind = torch.float64 if self._type == torch.float64 else torch.float32
        result = np.empty((len(sequences), self.width), dtype=np.float64 if kind == torch.float64 else np.float32)

        @torch.inference_mode()
        def fill(members: list[int]) -> None:
            lengths = [len(sequences[i]) for i in members]
            hidden = self._run([sequences[i] for i in members], None, None)
            # The mean is in float64, so that the order of summation has no effect.
            means = [part.mean(1, dtype=torch.float64) for part in _by_length(hidden, lengths)]
            result[members] = torch.cat(means).to(kind).cpu().numpy()

        self._in_blocks(fill, sequences, "encode")
        return result

    def states(
        self, sequences: Sequence[Sequence[int]], segments: Sequence[np.ndarray], positions: Sequence[int]
    ) -> Tensor:
        """Return the last hidden state at one position of each sequence: float32 [sequences, width].

        segments: the token types, 0 or 1, one per token.
        """
        result = torch.empty((len(sequences), self.width), device=self._device)

        @torch.inference_mode()
        def fill(members: list[int]) -> None:
            hidden = self._run(
                [sequences[i] for i in members], [segments[i] for i in members], [positions[i] for i in members]
            )
            result[members] = hidden.float()

        self._in_blocks(fill, sequences, "read words")
        return result

    def _in_blocks(self, work: Callable[[list[int]], None], sequences: Sequence[Sequence[int]], label: str) -> None:
        """Process the sequences in blocks: on the CPU in parallel, one block per core.

        Cores then do not wait for each other after every product, and results do not depend on the number of cores. On
        other devices, blocks are as large as memory allows, and are processed one after another.
        """

        def one_by_one(rest: Sequence[int]) -> Iterator[Sequence[int]]:
            blocks = list(self._blocks(sequences, rest))
            for block in track(blocks, len(blocks), label):
                work(block)
                yield block

        if self._device != "cpu":
            self._memory.work_off(range(len(sequences)), one_by_one)
            return
        blocks = list(self._blocks(sequences, range(len(sequences))))
        with ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in track(pool.map(work, blocks), len(blocks), label):
                pass

    def head(self, entries: np.ndarray) -> VocabularyHead:
        """Return the head over the vocabulary ids `entries`. Raises UserError if the checkpoint has no such head.

        The head computes in float32, since in bfloat16 logits near 16 are rounded to multiples of 0.125.
        """
        if "cls.predictions.transform.dense.weight" not in self._weights:
            raise UserError(
                "the checkpoint has no masked-language-model head (cls.predictions); give a masked LM", "EPS-N005"
            )
        tied = self._weights["embeddings.word_embeddings.weight"]
        weight = self._weights.get("cls.predictions.decoder.weight", tied)
        chosen = torch.from_numpy(entries).to(weight.device)
        return VocabularyHead(
            self._dense("cls.predictions.transform.dense", torch.float32),
            self._norm("cls.predictions.transform.LayerNorm", torch.float32),
            Affine(weight[chosen].float(), self._weights["cls.predictions.bias"][chosen].float()),
        )

    @torch.inference_mode()
    def logits(self, head: VocabularyHead, states: Tensor) -> Iterator[Tensor]:
        """Yield the head's logits for hidden states [n, width]. Each part is float32 [rows, entries]; n rows in all."""

        def first(rest: Tensor) -> Tensor:
            rows = self._memory.rows(40 * len(head.decoder.bias), HEAD_SLICE[self._device])
            part = rest[:rows]
            padded = F.pad(part, (0, 0, 0, rows - len(part)))
            return head.decoder(head.norm(F.gelu(head.transform(padded))))[: len(part)]

        for _, part in self._memory.parts(states, first):
            yield part

    def _blocks(self, sequences: Sequence[Sequence[int]], some: Sequence[int]) -> Iterator[list[int]]:
        """Yield the indices in `some`, shortest sequence first, in blocks of at most BLOCK tokens.

        Blocks are smaller if memory is short. A sequence of more tokens is a block by itself.
        """
        block: list[int] = []
        tokens = 0
        for i in sorted(some, key=lambda i: len(sequences[i])):
            if block and tokens + len(sequences[i]) > self._fitting(len(sequences[i])):
                yield block
                block, tokens = [], 0
            block.append(i)
            tokens += len(sequences[i])
        if block:
            yield block

    def _fitting(self, length: int) -> int:
        """Return the largest number of tokens in a block whose longest sequence has this length."""
        each = self._type.itemsize * activations(self._config, length) // max(length, 1)
        return self._memory.rows(each, BLOCK[self._device])

    @torch.inference_mode()
    def _run(
        self,
        sequences: list[Sequence[int]],
        segments: list[np.ndarray] | None,
        positions: list[int] | None,
    ) -> Tensor:
        """Return the last hidden states of sequences. The sequences must be ordered by length.

        positions: for each sequence, the one position to return the state of; None: all positions.
        """
        lengths = [len(sequence) for sequence in sequences]
        total = sum(lengths)
        hidden = self._embed(sequences, segments)
        for layer in self._layers[:-1]:
            hidden = self._feed(layer, hidden, self._attend(layer, hidden, lengths))
        context = self._attend(self._layers[-1], hidden, lengths)
        if positions is None:
            return self._feed(self._layers[-1], hidden, context)[:total]
        # The last layer is computed only at the requested positions, except for its attention.
        wanted = torch.from_numpy(np.cumsum([0, *lengths[:-1]]) + positions).to(self._device)
        return self._feed(self._layers[-1], self._fill(hidden[wanted]), self._fill(context[wanted]))[: len(wanted)]

    def _embed(self, sequences: list[Sequence[int]], segments: list[np.ndarray] | None) -> Tensor:
        """Return the first hidden states, packed: [number of tokens rounded up to whole slices, width]."""

        def packed(parts: Sequence[Sequence[int] | np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(parts).astype(np.int64)).to(self._device)

        hidden = F.embedding(packed(sequences), self._embeddings["word"])
        hidden = hidden + F.embedding(packed([range(len(s)) for s in sequences]), self._embeddings["position"])
        kinds = self._embeddings["token_type"]
        hidden += kinds[0] if segments is None else F.embedding(packed(segments), kinds)
        return self._fill(self._embedding_norm(hidden))

    def _fill(self, rows: Tensor) -> Tensor:
        """Return the rows followed by rows of zeros, up to a whole number of slices."""
        return F.pad(rows, (0, 0, 0, -len(rows) % SLICE[self._device]))

    def _attend(self, layer: Layer, hidden: Tensor, lengths: list[int]) -> Tensor:
        """Return each token's attention output over its own sequence, in the shape of `hidden`."""
        rows = SLICE[self._device]
        inputs = hidden.new_empty(len(hidden), 3 * self.width)
        for part, output in zip(hidden.split(rows), inputs.split(rows), strict=True):
            output.copy_(layer.inputs(part))
        context = torch.zeros_like(hidden)
        for part, output in zip(_by_length(inputs, lengths), _by_length(context, lengths), strict=True):
            query, key, value = part.unflatten(2, (3, self._heads, -1)).permute(2, 0, 3, 1, 4)
            output.copy_(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return context

    def _feed(self, layer: Layer, hidden: Tensor, context: Tensor) -> Tensor:
        """Compute the rest of a layer after attention, token by token. Overwrites and returns `hidden`."""
        rows = SLICE[self._device]
        for part, mixture in zip(hidden.split(rows), context.split(rows), strict=True):
            middle = layer.mixed_norm(part + layer.mixed(mixture))
            part.copy_(layer.norm(middle + layer.down(F.gelu(layer.up(middle)))))
        return hidden

    def _layer(self, name: str) -> Layer:
        parts = [self._dense(f"{name}.attention.self.{part}", self._type) for part in ("query", "key", "value")]
        return Layer(
            Affine(torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])),
            self._dense(f"{name}.attention.output.dense", self._type),
            self._norm(f"{name}.attention.output.LayerNorm", self._type),
            self._dense(f"{name}.intermediate.dense", self._type),
            down=self._dense(f"{name}.output.dense", self._type),
            norm=self._norm(f"{name}.output.LayerNorm", self._type),
        )

    def _dense(self, name: str, kind: torch.dtype) -> Affine:
        return Affine(self._weights[f"{name}.weight"].to(kind), self._weights[f"{name}.bias"].to(kind))

    def _norm(self, name: str, kind: torch.dtype) -> Norm:
        return Norm(self._weights[f"{name}.weight"].to(kind), self._weights[f"{name}.bias"].to(kind), self._epsilon)


def _by_length(rows: Tensor, lengths: list[int]) -> Iterator[Tensor]:
    """Yield views [sequences, length, columns] of packed rows, one for each run of sequences of equal length."""
    start = 0
    for length, run in groupby(lengths):
        stop = start + length * len(list(run))
        yield rows[start:stop].unflatten(0, (-1, length))
        start = stop
