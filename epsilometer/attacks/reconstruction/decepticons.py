"""Decepticons (Fowl et al. 2023): a malicious server sends out a model whose gradient names the texts.

Two variants.

`published` is the attack with its authors' settings for these models: tags, bins and their reading are described in
`shared.bins`. It knows nothing of clipping and noise. With noise it keeps the rows of the smallest bias gradient,
which are the emptiest, and its bins hold a vanishing part of the gradient's length: what any noise at all does to it
says little about noise.

`aware` is the same threat with a server that knows the clipping length and the noise, as it does in private federated
learning: `shared.gates` spends the whole clipped gradient on what is read, and `shared.superposition` reads it. It
starts to fail where the information of the release does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.attacks.reconstruction.shared import bins, gates, superposition
from epsilometer.attacks.reconstruction.shared.attack import Knowledge, Prepared, Reconstruction
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.training.sent import Sent
from epsilometer.training.shared_model import SharedModel

SMOOTHING = 0.05  # counts of every word on top of those in public texts
_UNUSED = re.compile(r"\[unused\d+\]")


@component
class Decepticons:
    """variant: `published` or `aware`. batch: the most texts of a client that the sent model of `aware` is made for.

    The fewer, the better it takes them apart.
    """

    variant: Literal["published", "aware"] = "aware"
    batch: int = 8

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise UserError(f"batch must be at least 1 text, got {self.batch}")

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """The malicious model, and how its gradient is read.

        Raises UserError for a model without the layers that the attack needs, or whose gradients are not sent.
        """
        if self.variant == "published":
            return bins.build(model, knowledge)
        return Aware(gates.build(model, knowledge, self.batch), _prior(model, knowledge))


@dataclass(frozen=True)
class Aware:
    """The prepared variant. prior: [vocabulary], ln of how frequent a word is in public texts."""

    gates: gates.Gates
    prior: NDArray[np.float64] = field(repr=False)

    @property
    def model(self) -> SharedModel:
        """The malicious model."""
        return self.gates.model

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """The likeliest texts, in the order of the labels and lengths. Nothing is random."""
        frame = self.model.framed([-1])
        first, special = frame.index(-1), len(frame) - 1
        lengths = tuple(length - special for length in sent.lengths)
        rows = self.gates.rows(sent)[first : first + max(lengths)]
        signs = tuple(-1 if label == 0 else 1 for label in sent.labels) or (0,) * len(lengths)
        noise = self.gates.noise(sent)
        words = superposition.read(
            superposition.Reading(rows, self.gates.codes, self.prior, noise, lengths=lengths, signs=signs)
        )
        return Reconstruction(tuple(tuple(map(int, one)) for one in words), {"noise": noise})


def _prior(model: SharedModel, knowledge: Knowledge) -> NDArray[np.float64]:
    """ln of each word's share in public texts, smoothed; -inf for special and unused entries."""
    counts = np.full(len(model.words), SMOOTHING)
    for ids in model.encode(knowledge.public):
        np.add.at(counts, ids, 1.0)
    meaningless = {number for word, number in model.tokenizer.get_vocab().items() if _UNUSED.fullmatch(word)}
    counts[sorted(model.special | meaningless)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts / counts.sum()))
