"""A part of the training loss that guides the attention of some heads.
These models must above all copy and match: attend to the equal token, or to the next one. A small model learns this
late from its predictions alone, and early if the loss rewards attention of some heads to the right positions. The saved
model has no extra parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def astray(attention: Tensor, heads: Sequence[int], places: Tensor) -> Tensor:
    """Return minus the mean log share of the heads' attention to the right positions; 0 if all of it is there.
    attention: [batch, heads, queries, keys]; places: bool [batch, queries, keys]; queries without one are ignored.
    """
    import torch

    has_place = places.any(-1)
    if not has_place.any():
        return torch.zeros((), device=attention.device)
    share = (attention[:, list(heads)] * places[:, None]).sum(-1)  # [batch, heads, queries]
    return -share.clamp(min=1e-6).log().mean(1)[has_place].mean()
