"""Products of dense layers. On the CPU, oneDNN multiplies float32 numbers.

torch itself passes such products to MKL. On an AMD processor oneDNN is about twice as fast. It comes with torch,
which uses it in compiled networks. A row's product depends on no other row if the shape is the same.
Gradients and automatic casts are left to torch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

# An operator of torch's compiler, without a public name. A torch without it uses its own products.
_PRODUCT = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return rows [..., inputs] times the transpose of weight [outputs, inputs], plus bias [outputs]."""
    plain = rows.device.type == "cpu" and rows.dtype == weight.dtype == torch.float32
    if _PRODUCT is None or not plain or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return functional.linear(rows, weight, bias)
    product: Tensor = _PRODUCT(rows, weight, bias, "none", [], "")
    return product


def multiply_by_onednn(network: nn.Module) -> None:
    """Let the dense layers of a network compute by `linear`."""
    for layer in network.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = _Linear


class _Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)
