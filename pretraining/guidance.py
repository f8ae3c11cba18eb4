"""A training aid that shows attention heads where to look.

These models must above all copy and match: look at the equal token, or at the one after it. A small model learns this
late from its predictions alone, and early when the right places are part of the loss of some heads. The saved model is
an ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def astray(attention: Tensor, heads: Sequence[int], places: Tensor) -> Tensor:
    """Minus the mean log share of attention that some heads pay to the right places (0 where it is all of it).

    attention: [batch, heads, queries, keys]; places: bool [batch, queries, keys]; queries without a place do not count.
    """
    import torch

    has_place = places.any(-1)
    if not has_place.any():
        return torch.zeros((), device=attention.device)
    share = (attention[:, list(heads)] * places[:, None]).sum(-1)  # [batch, heads, queries]
    return -share.clamp(min=1e-6).log().mean(1)[has_place].mean()
