"""Access to the parameters of a BERT or a GPT-2 by role, so that one malicious model is written for both.

Here a dense layer's weight is [outputs, inputs], as in BERT. GPT-2 stores the transpose, and has queries, keys and
values in one matrix. BERT normalises after each addition, GPT-2 before each part of a block. `before_up` is the norm
whose output enters the feed-forward layers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.studies.training.runs.shared_model import SharedModel

_BERT = {
    "word": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "type": "embeddings.token_type_embeddings",
    "first_norm": "embeddings.LayerNorm",
    "query": "encoder.layer.{}.attention.self.query",
    "key": "encoder.layer.{}.attention.self.key",
    "value": "encoder.layer.{}.attention.self.value",
    "mixed": "encoder.layer.{}.attention.output.dense",
    "before_up": "encoder.layer.{}.attention.output.LayerNorm",
    "up": "encoder.layer.{}.intermediate.dense",
    "down": "encoder.layer.{}.output.dense",
}
_GPT2 = {
    "word": "wte",
    "position": "wpe",
    "query": "h.{}.attn.c_attn",
    "key": "h.{}.attn.c_attn",
    "value": "h.{}.attn.c_attn",
    "mixed": "h.{}.attn.c_proj",
    "before_up": "h.{}.ln_2",
    "up": "h.{}.mlp.c_fc",
    "down": "h.{}.mlp.c_proj",
}
_DENSE = ("query", "key", "value", "mixed", "up", "down")
_NORMS = ("LayerNorm.", "ln_1.", "ln_2.", "ln_f.")
_THIRD = {"query": 0, "key": 1, "value": 2}


class ModelWeights:
    """A copy of a model's parameters on the CPU, to read and set by role.

    The attributes are the model's sizes: blocks, width, units per feed-forward layer, attention heads, and positions of
    the longest text.
    """

    def __init__(self, model: SharedModel) -> None:
        self._bert = model.architecture == "bert"
        self._start = "bert." if self._bert else "transformer."
        parameters = dict(model.network.named_parameters())
        self._own = {name: parameter.detach().cpu().clone() for name, parameter in parameters.items()}
        config = model.network.config
        self.blocks: int = config.num_hidden_layers
        self.width: int = config.hidden_size
        self.heads: int = config.num_attention_heads
        self.positions: int = config.max_position_embeddings
        self.units = len(self.get("up.bias", 0))

    @property
    def changed(self) -> Mapping[str, Tensor]:
        """All parameters with the changes so far, by their names in torch."""
        return self._own

    def name(self, role: str, block: int = 0) -> str:
        """Return the name of a parameter in torch. role: such as `up.weight`, or a full name (`classifier.weight`)."""
        layer, _, kind = role.rpartition(".")
        table = _BERT if self._bert else _GPT2
        return f"{self._start}{table[layer].format(block)}.{kind}" if layer in table else role

    def get(self, role: str, block: int = 0) -> Tensor:
        """Return a view of the parameter of a role."""
        return self._role_of(self._own[self.name(role, block)], role)

    def set(self, role: str, value: Tensor | float, block: int = 0) -> None:
        """Set the parameter of a role to a tensor, or fill it with a number."""
        self.get(role, block).copy_(torch.as_tensor(value, dtype=torch.float32))

    def read(self, tensors: Mapping[str, Tensor], role: str, block: int = 0) -> Tensor:
        """Return the sent gradient of a role. Raises UserError with the parameter's name if it was not sent."""
        name = self.name(role, block)
        if name not in tensors:
            raise UserError(f"the attack needs the gradient of {name}, which is not sent; set tensors: all", "EPS-A035")
        return self._role_of(tensors[name], role)

    def has(self, role: str) -> bool:
        """Return True if the model has a parameter of this role."""
        return self.name(role) in self._own

    def neutral(self) -> None:
        """Set norms to neutral and all other parameters to zero, so that blocks pass states on unchanged."""
        for parameter in self._own.values():
            parameter.fill_(0.0)
        self.neutral_norms()

    def neutral_norms(self) -> None:
        """Set every norm's weight to 1 and its bias to 0."""
        for name, parameter in self._own.items():
            if any(part in name for part in _NORMS):
                parameter.fill_(1.0 if name.endswith(".weight") else 0.0)

    def _role_of(self, tensor: Tensor, role: str) -> Tensor:
        """Return a view of a role's part of a stored tensor; for a dense layer's weight, [outputs, inputs]."""
        layer, _, kind = role.rpartition(".")
        if self._bert or layer not in _DENSE:
            return tensor
        tensor = tensor.T if kind == "weight" else tensor
        return tensor.chunk(3)[_THIRD[layer]] if layer in _THIRD else tensor


def tensors_of(model: SharedModel, vector: Tensor) -> dict[str, Tensor]:
    """Return the sent gradient, a vector [d], as tensors by name."""
    return dict(zip(model.names, model.split(vector), strict=True))
