"""Per-example gradients of any parameters of a classifying BERT or GPT-2, by torch.func in micro-batches.

This slow method is for parameters whose gradients have no closed form in `heads`: some or all layers of the network, or
adapters (LoRA, Hu et al. 2022). `NetworkHead` can replace a head, even in the training loop. Its inputs are token ids
[L, length] of L examples (`Tokens.padded`), not hidden states.

One `vmap` of one `grad` computes the gradients of a micro-batch: examples x d numbers, for d parameters. The gradients
of a whole batch are stored if they take at most MEMORY bytes. Otherwise each quantity (norms, inner products) takes
another pass through the micro-batches. A weighted sum is then the gradient of the weighted losses, by one backward pass
per micro-batch. The size of micro-batches affects only float32 rounding.

A tensor shared by two layers is one parameter, counted once. Its gradient is the sum over the two layers. The network
is in evaluation mode, without dropout, and no layer mixes examples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.randomness import Noise
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.studies.training.runs.gradients import DenseGradients
from epsilometer.studies.training.runs.heads import GPT2, Head, kind_of
from epsilometer.studies.training.runs.tokens import NONE, attention, padding

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

MEMORY = 1 << 28  # maximum number of bytes for the gradients of a batch
MICRO = 8  # examples in a micro-batch, or fewer if their gradients exceed MEMORY


@dataclass(frozen=True, eq=False)
class NetworkHead(Head):
    """Parameters of a network, trainable like those of a head. Several stacked models are not supported.

    vector:  float32 [d], the values of the parameters, which replace those in `network`.
    width:   the number of tokens of a padded text.
    network: a module with the interface of transformers' classes for sequence classification, in evaluation mode.
    chosen:  the shapes of the trainable parameters by name.
    pad:     the id of padding tokens.
    causal:  whether attention is causal.
    micro:   the number of examples in a micro-batch.
    """

    network: Module = field(repr=False)
    chosen: Mapping[str, tuple[int, ...]]
    pad: int
    causal: bool
    micro: int = MICRO

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the trainable parameters by name."""
        return dict(self.chosen)

    def about(self) -> dict[str, Any]:
        """Return the class of the network, and a digest of its frozen parameters."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.network.state_dict().items():
            if name not in self.chosen:
                digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
        return {"kind": type(self.network).__name__, "frozen": digest.hexdigest()}

    def logits(self, states: NDArray[Any], masks: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the logits [L, classes] for token ids [L, width]. `masks` is not used."""
        import torch

        out = np.empty((len(states), self.classes), np.float32)
        with torch.inference_mode():
            for rows in self.micro_batches(len(states)):
                ids, mask = self._inputs(states[rows])
                out[rows] = self._forward(self._tensors(), ids, mask).cpu().numpy()
        return out

    def gradients(
        self, states: NDArray[Any], labels: NDArray[np.integer], masks: NDArray[np.float32] | None = None
    ) -> MicroGradients:
        """Return the per-example gradients of the losses of L examples.

        states: token ids [L, width]; labels: [L]; `masks` is not used.
        """
        return MicroGradients(self, states, np.asarray(labels))

    def micro_batches(self, count: int) -> Iterator[slice]:
        """Yield the slices that divide `count` examples into micro-batches."""
        return (slice(start, start + self.micro) for start in range(0, count, self.micro))

    def written_out(self, states: NDArray[Any], labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the gradients [L, d] of one micro-batch."""
        import torch

        def loss(tensors: dict[str, Tensor], ids: Tensor, mask: Tensor, label: Tensor) -> Tensor:
            return torch.nn.functional.cross_entropy(self._forward(tensors, ids[None], mask[None]), label[None])

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0, 0))
        with torch.no_grad():  # for the frozen parameters
            gradients = each(self._tensors(), *self._inputs(states), self._on_device(labels.astype(np.int64)))
        rows: NDArray[np.float32] = torch.cat([gradients[name].flatten(1) for name in self.shapes], 1).cpu().numpy()
        return rows

    def summed(
        self, states: NDArray[Any], labels: NDArray[np.integer], weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Return the sum [d] of the examples' gradients times their weights [L], without forming each gradient."""
        import torch

        ids, mask = self._inputs(states)
        wanted, by = self._on_device(labels.astype(np.int64)), self._on_device(weights.astype(np.float32))

        def loss(tensors: dict[str, Tensor]) -> Tensor:
            losses = torch.nn.functional.cross_entropy(self._forward(tensors, ids, mask), wanted, reduction="none")
            return losses @ by

        with torch.no_grad():  # for the frozen parameters
            gradient = torch.func.grad(loss)(self._tensors())
        return np.concatenate([gradient[name].cpu().numpy().ravel() for name in self.shapes])

    def _forward(self, tensors: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Tensor:
        import torch

        inputs = {"input_ids": ids, "attention_mask": mask}
        logits: Tensor = torch.func.functional_call(self.network, tensors, (), inputs).logits
        return logits

    def _tensors(self) -> dict[str, Tensor]:
        return {name: self._on_device(tensor) for name, tensor in self.parameters.items()}

    def _inputs(self, states: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Return ids [L, t] and the bias on attention scores [L, 1, t, t]; t is the length of the longest text."""
        there = states != NONE
        length = max(1, int(there.sum(axis=1).max(initial=0)))
        there = there[:, :length]
        ids = np.where(there, states[:, :length], self.pad).astype(np.int64)
        return self._on_device(ids), self._on_device(attention(there, self.causal))

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        """Return an array on the network's device."""
        import torch

        return torch.from_numpy(array).to(next(self.network.parameters()).device)


@dataclass(frozen=True)
class MicroGradients:
    """`ExampleGradients` of a network's parameters, computed by micro-batches.

    states: token ids [L, width]; labels: [L]; chosen: the index of the only tensor to use, or None for all.
    """

    head: NetworkHead
    states: NDArray[Any]
    labels: NDArray[np.integer]
    chosen: int | None = None

    @property
    def count(self) -> int:
        """L, the number of examples."""
        return len(self.states)

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        return sum(self.parts)

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the tensors."""
        return self.head.parts if self.chosen is None else (self.head.parts[self.chosen],)

    def norms(self) -> NDArray[np.float64]:
        """Return the lengths of the gradients [L]."""
        return self._lengths

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the sum [d] of the gradients times their weights [L]."""
        if self._fits:
            return self._whole.weighted_sum(weights)
        out, start = np.zeros(self.size, np.float32), sum(self.head.parts[: self.chosen or 0])
        counted = np.flatnonzero(self._lengths)  # gradients that are not finite have length 0
        for first in range(0, len(counted), MICRO):
            rows = counted[first : first + MICRO]
            whole = self.head.summed(self.states[rows], self.labels[rows], weights[rows])
            out += whole[start : start + self.size]
        return out

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [L, L], from pairs of micro-batches if the whole batch exceeds MEMORY."""
        if self._fits:
            return self._whole.gram()
        out = np.zeros((self.count, self.count))
        for rows, part in self._blocks():
            for others, other in self._blocks(rows.stop):
                both = DenseGradients(np.concatenate([part.finite, other.finite])).gram()
                out[rows, others] = both[: part.count, part.count :]
                out[others, rows] = out[rows, others].T
            out[rows, rows] = part.gram()
        return out

    def product(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the inner products [L] of the gradients with a vector [d]."""
        return np.concatenate([np.empty(0), *(part.product(vector) for _, part in self._blocks())])

    def part(self, number: int) -> MicroGradients:
        """Return the gradients with respect to one tensor."""
        return replace(self, chosen=number)

    def _blocks(self, start: int = 0) -> Iterator[tuple[slice, DenseGradients]]:
        """Yield the micro-batches from row `start` on, with their gradients."""
        for rows in self.head.micro_batches(self.count):
            if rows.start >= start:
                whole = self._whole.matrix[rows] if self._fits else self._matrix(rows)
                yield rows, DenseGradients(whole, self.parts)

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *(part.norms() for _, part in self._blocks())])

    @property
    def _fits(self) -> bool:
        return 4 * self.count * self.size <= MEMORY

    @cached_property
    def _whole(self) -> DenseGradients:
        rows = [self._matrix(rows) for rows in self.head.micro_batches(self.count)]
        return DenseGradients(np.concatenate([np.empty((0, self.size), np.float32), *rows]), self.parts)

    def _matrix(self, rows: slice) -> NDArray[np.floating]:
        whole = DenseGradients(self.head.written_out(self.states[rows], self.labels[rows]), self.head.parts)
        return whole.matrix if self.chosen is None else whole.part(self.chosen).matrix


def network(model: str | Path, classes: int, noise: Noise) -> Module:
    """Load a classifying BERT or GPT-2 with transformers, in evaluation mode.

    model: anything that `models.locate` finds; noise: one random stream, for weights that the checkpoint lacks.
    Raises UserError for another architecture and for fewer than two classes.
    """
    import torch

    if classes < 2:
        raise UserError(
            f"a classifier needs at least 2 classes, got {classes}; give labels of two classes or more", "EPS-T006"
        )
    folder = locate(model)
    kind_of(folder)
    with quiet_loading(folder), torch.random.fork_rng():
        from transformers import AutoModelForSequenceClassification

        torch.manual_seed(int(noise.generator(0).integers(1 << 62)))
        loaded: Any = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=classes,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,
        )
    loaded.config.pad_token_id = padding(folder)
    module: Module = loaded.eval().to(resolved())
    return module


def trainable(network: Any, length: int, names: Sequence[str] | None = None, micro: int | None = None) -> NetworkHead:
    """Return some parameters of a network as a head.

    network: from `network`, possibly with adapters (`adapters.adapt`).
    length: the number of tokens of a padded text.
    names: the beginnings of the parameters' names, such as "bert.encoder.layer.5."; None for the parameters that
        require a gradient.
    micro: the number of examples in a micro-batch; None for MICRO, or fewer if d is large.

    Raises UserError if no parameter is trainable, if no parameter's name begins with a given name, and if micro is
    below 1.
    """
    every = dict(network.named_parameters())  # contains a shared parameter once
    if names is None:
        chosen = [name for name, parameter in every.items() if parameter.requires_grad]
    else:
        for name in names:
            if not any(parameter.startswith(name) for parameter in every):
                raise unknown("parameter", name, every)
        chosen = [parameter for parameter in every if parameter.startswith(tuple(names))]
    if not chosen:
        raise UserError("no parameter is trainable; list parameters, or let some require a gradient", "EPS-T007")
    if micro is not None and micro < 1:
        raise UserError(f"micro must be at least 1 example, got {micro}", "EPS-T008")
    shapes = {name: tuple(every[name].shape) for name in chosen}
    vector = np.empty(sum(map(math.prod, shapes.values())), np.float32)
    config = network.config
    head = NetworkHead(
        vector,
        length,
        int(config.num_labels),
        network=network.eval(),
        chosen=shapes,
        pad=int(config.pad_token_id),
        causal=config.model_type == GPT2,
        micro=micro or max(1, min(MICRO, MEMORY // vector.nbytes)),
    )
    for name, tensor in head.parameters.items():
        tensor[...] = every[name].detach().float().cpu().numpy()
    return head
