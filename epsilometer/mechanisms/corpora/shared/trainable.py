"""The part of a public language model that DP-SGD trains: soft prompts or low-rank adapters. The rest is frozen.

Either part is one vector of numbers, with a gradient for each text. A text is written after its label's prompt.

    Prompts:  the vector is the prompts P [L, w], one for each label (Lester et al. 2021, arXiv:2104.08691).
    Adapters: prompts stay as they begin. A projection y = W x of a layer becomes y = W x + B A x, and the vector is all
              A [r, in] and B [out, r] (Hu et al. 2021, arXiv:2106.09685). A is random at first and B is 0, so that
              training starts from the unchanged model.

One backward pass gives the gradient of each text of a batch, since each text has its own copy of the vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epsilometer.core.errors import UserError
from epsilometer.mechanisms.corpora.shared.prompted import Prompted, Tokens

Vector = NDArray[np.float32]

_PROJECTIONS = ("q_proj", "v_proj", "c_attn")  # layers for queries and values; in GPT-2 one layer, also for keys


class Trainable(Protocol):
    """The trained part of a model. Implementations get the prompts before training, float32 [L, w]."""

    def first(self) -> Vector:
        """Return the vector [d] before training."""

    def gradients(self, vector: Vector, labels: NDArray[np.int64], rows: Sequence[Tokens]) -> Vector:
        """Return the gradient [n, d] of each text's mean loss. labels: [n]; rows: the texts' tokens."""

    def write(self, vector: Vector, labels: NDArray[np.int64], generator: np.random.Generator) -> list[str]:
        """Return a text for each label."""


class Prompts:
    """The prompts of a model."""

    def __init__(self, language: Prompted, prompts: Vector) -> None:
        self._language, self._prompts = language, prompts

    def first(self) -> Vector:
        """Return the vector as in `Trainable`."""
        return self._prompts.ravel().copy()

    def gradients(self, vector: Vector, labels: NDArray[np.int64], rows: Sequence[Tokens]) -> Vector:
        """Return the gradients as in `Trainable`."""
        prompts = vector.reshape(self._prompts.shape)
        out = np.zeros((len(rows), *prompts.shape), np.float32)
        out[np.arange(len(rows)), labels] = self._language.gradients(prompts[labels], rows)
        return out.reshape(len(rows), vector.size)

    def write(self, vector: Vector, labels: NDArray[np.int64], generator: np.random.Generator) -> list[str]:
        """Return texts as in `Trainable`."""
        return self._language.write(vector.reshape(self._prompts.shape)[labels], generator)


class Adapters:
    """Low-rank adapters of a model's attention. rank: r. generator: samples each A.

    Raises UserError if the model has no projections of these names.
    """

    def __init__(self, language: Prompted, prompts: Vector, rank: int, generator: np.random.Generator) -> None:
        self._language, self._prompts = language, prompts
        network: nn.Module = language.network
        self._layers = [each for name, each in network.named_modules() if name.rpartition(".")[2] in _PROJECTIONS]
        if not self._layers:
            raise UserError(
                f"the model has no layer {', '.join(_PROJECTIONS)} to which adapters could be added; leave out `rank` "
                "to train prompts",
                "EPS-M122",
            )
        self._shapes = [shape for layer in self._layers for shape in _shapes(layer, rank)]
        parts = [
            generator.normal(0, shape[1] ** -0.5, shape) if i % 2 == 0 else np.zeros(shape)
            for i, shape in enumerate(self._shapes)
        ]
        self._first = np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def first(self) -> Vector:
        """Return the vector as in `Trainable`."""
        return self._first.copy()

    def gradients(self, vector: Vector, labels: NDArray[np.int64], rows: Sequence[Tokens]) -> Vector:
        """Return the gradients as in `Trainable`."""
        out = np.empty((len(rows), vector.size), np.float32)
        for some, prompts, tokens in self._language.batches(self._prompts[labels], rows):
            own = torch.from_numpy(vector).to(prompts.device).repeat(len(some), 1).requires_grad_(True)
            with self._at(own):
                losses = self._language.losses(prompts, tokens)
            out[some] = torch.autograd.grad(losses.sum(), own)[0].cpu().numpy()
        return out

    def write(self, vector: Vector, labels: NDArray[np.int64], generator: np.random.Generator) -> list[str]:
        """Return texts as in `Trainable`."""
        with self._at(torch.from_numpy(vector).to(self._language.model.device)[None]):
            return self._language.write(self._prompts[labels], generator)

    @contextmanager
    def _at(self, vectors: Tensor) -> Iterator[None]:
        """Add the adapters while the context is open. vectors: [n, d], one for each text, or [1, d] for all."""
        parts = [
            part.reshape(-1, *shape)
            for part, shape in zip(
                vectors.split([rows * of for rows, of in self._shapes], 1), self._shapes, strict=True
            )
        ]
        with ExitStack() as stack:
            for layer, a, b in zip(self._layers, parts[::2], parts[1::2], strict=True):
                handle = layer.register_forward_hook(_adding(a, b))
                stack.callback(handle.remove)
            yield


def _adding(a: Tensor, b: Tensor) -> Any:
    """Return a hook that adds B A x to a projection's output. a: [n, r, in]; b: [n, out, r]."""

    def add(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output + inputs[0] @ a.mT @ b.mT

    return add


def _shapes(layer: nn.Module, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shapes of a projection's A and B."""
    weight: Any = layer.weight
    inside, out = weight.shape if type(layer).__name__ == "Conv1D" else weight.shape[::-1]
    return (rank, inside), (out, rank)
