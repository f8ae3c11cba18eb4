"""Pruning of encoder dimensions that a decoder hardly uses, and its record (DP-BART-PR).

As in Igamberdiev and Habernal 2023, "DP-BART for privatized text rewriting under local differential privacy", the score
of a dimension is the sum of its absolute weights in the key projection of the decoder's first cross-attention. Each
round drops the quarter of the remaining dimensions with the lowest scores.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

FILE = "pruning.json"
SHARE = 0.25  # share of the remaining dimensions dropped in a round, as in the paper
# Names of cross-attention modules, and of their key projections, in models of the library transformers.
_ATTENTIONS = ("encoder_attn", "EncDecAttention", "crossattention")
_KEYS = ("k_proj", "k", "key")


@dataclass(frozen=True)
class Pruning:
    """The record of a pruned encoder-decoder, in its folder as pruning.json.

    variant:        pr or pr_plus.
    pruned:         indices of the dropped dimensions.
    width:          number of all dimensions.
    length, clip:   settings of training.
    epsilon, delta: budget of the noise in training, only for pr_plus.
    """

    variant: str
    pruned: tuple[int, ...]
    width: int
    length: int
    clip: float
    epsilon: float | None = None
    delta: float | None = None

    @classmethod
    def read(cls, folder: Path) -> Pruning | None:
        """Return the record in a model's folder; None if there is no record."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            record = json.loads(path.read_text())
            pruning = cls(**{**record, "pruned": tuple(record["pruned"])})
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path} cannot be read as a record of pruning ({error}); train the model again", "EPS-M049"
            ) from error
        if not set(pruning.pruned) < set(range(pruning.width)):
            raise UserError(
                f"{path} prunes dimensions outside 0 to {pruning.width - 1}, or all of them; train the model again",
                "EPS-M050",
            )
        return pruning

    def write(self, folder: Path) -> None:
        """Write the record into a model's folder."""
        write_text(json.dumps(asdict(self)) + "\n", folder / FILE)

    def remaining(self) -> NDArray[np.int64]:
        """Return the indices of the remaining dimensions, ascending."""
        return np.setdiff1d(np.arange(self.width), self.pruned)


def key_projection(network: Any, width: int) -> Tensor:
    """Return the weights [keys, width] of the key projection of the decoder's first cross-attention.

    Raises UserError if the network has no such matrix.
    """
    for name, module in network.named_modules():
        *places, leaf = name.split(".")
        weight = getattr(module, "weight", None)
        if leaf in _KEYS and weight is not None and not set(places).isdisjoint(_ATTENTIONS):
            if weight.shape[1] != width:
                break
            return weight
    raise UserError(
        f"{type(network).__name__} has no supported cross-attention over its encoder's {width} dimensions (supported: "
        "BART, T5, a pair of BERTs of one width); use variant: clv",
        "EPS-M051",
    )


def scores(network: Any, width: int) -> NDArray[np.float64]:
    """Return the score of each dimension, [width]: the sum of its absolute weights in the key projection."""
    weight = key_projection(network, width).detach()
    score: NDArray[np.float64] = weight.double().abs().sum(dim=0).cpu().numpy()
    return score


def prune_round(left: NDArray[np.int64], score: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the dimensions that remain after a round. Successive rounds leave 576, 432, 324, 243, ... of 768.

    left: the dimensions that remain before the round, ascending; score: the score of every dimension, [width].
    """
    count = int(len(left) * (1 - SHARE) + 0.5)
    order = np.argsort(-score[left], kind="stable")
    return np.sort(left[order[:count]])
