"""LoRA: trainable low-rank updates of frozen linear layers (Hu et al. 2022).

A layer W x + b becomes W x + b + B A x, with A [rank, inputs] and B [outputs, rank]. This trains rank (inputs +
outputs) parameters instead of inputs x outputs. B starts at 0, so that the network starts unchanged. A starts uniform
between -1 / sqrt(inputs) and 1 / sqrt(inputs), as in peft with `lora_alpha` equal to the rank and no dropout. The
classifier (for GPT-2 the scorer) is trained in full, because it may be new.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.core.errors import unknown
from epsilometer.studies.training.runs.heads import GPT2

if TYPE_CHECKING:
    from torch.nn import Module

DOWN, UP = "down", "up"  # A and B


def adapt(network: Any, rank: int, targets: Sequence[str], generator: np.random.Generator) -> list[str]:
    """Add an adapter, in place, to every linear layer whose name equals or ends in one of `targets`, such as "query".

    network: from `general.network`. Returns the names of the tensors to train, for `general.trainable`. Raises
    UserError if a target matches no layer.
    """
    layers = {name: sizes for name, layer in network.named_modules() if (sizes := _sizes(layer))}
    classifier = "score" if network.config.model_type == GPT2 else "classifier"
    layers.pop(classifier, None)
    for target in targets:
        if not any(_is(name, target) for name in layers):
            raise unknown("linear layer", target, {name.rpartition(".")[2] for name in layers})
    trained = [classifier]
    for name, sizes in layers.items():
        if any(_is(name, target) for target in targets):
            above, _, own = name.rpartition(".")
            parent = network.get_submodule(above)
            setattr(parent, own, _adapted(getattr(parent, own), sizes, rank, generator))
            trained += [f"{name}.{part}." for part in (DOWN, UP)]
    return trained


def _is(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _sizes(layer: object) -> tuple[int, int] | None:
    """Return the numbers of inputs and outputs of a linear layer; None for other layers.

    GPT-2 uses a class of transformers, Conv1D, whose weight is transposed.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.out_features
    if isinstance(layer, Conv1D):
        inputs, outputs = layer.weight.shape
        return int(inputs), int(outputs)
    return None


def _adapted(layer: Any, sizes: tuple[int, int], rank: int, generator: np.random.Generator) -> Module:
    """Return a layer with an adapter, on the same device. sizes: its numbers of inputs and outputs."""
    import torch

    inputs, outputs = sizes

    class Adapted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = layer
            self.down = torch.nn.Linear(inputs, rank, bias=False)
            self.up = torch.nn.Linear(rank, outputs, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            changed: torch.Tensor = self.base(x) + self.up(self.down(x))
            return changed

    adapted = Adapted()
    first = generator.uniform(-1, 1, (rank, inputs)) / math.sqrt(inputs)
    with torch.no_grad():
        adapted.down.weight.copy_(torch.from_numpy(first.astype(np.float32)))
        adapted.up.weight.zero_()
    return adapted.to(layer.weight.device)
