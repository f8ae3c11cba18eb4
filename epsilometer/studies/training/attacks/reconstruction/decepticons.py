"""Decepticons (Fowl et al. 2023): a malicious server sends out a model whose gradient reveals the texts.

There are two variants.

`published` is the attack with its authors' settings for BERT and GPT-2; `shared.bins` describes its model and decoding.
This variant ignores clipping and noise. It decodes differences between rows of the gradient. With noise, it selects the
differences with the smallest bias gradients, which contain the least information. After clipping, all differences have
a vanishing share of the gradient's length. So if `published` fails at some noise, this says little about the protection
by the noise.

`aware` assumes a server that knows the clipping length and the noise, as servers do in private federated learning.
`shared.gates` concentrates nearly the whole clipped gradient in the rows that `shared.superposition` decodes. `aware`
starts to fail only if the release contains too little information.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.reconstruction.shared import bins, gates, superposition
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge, Prepared, Reconstruction
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

SMOOTHING = 0.05  # added to the count of every word in public texts
_UNUSED = re.compile(r"\[unused\d+\]")


@component
class Decepticons:
    """The Decepticons attack.

    variant: `published` or `aware`.
    batch:   the maximum number of texts per client that `aware` prepares for; a smaller number separates the texts
             better. Raises UserError if it is below 1.
    """

    variant: Literal["published", "aware"] = "aware"
    batch: int = 8

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise UserError(f"batch must be at least 1 text, got {self.batch}", "EPS-A021")

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """Return the attack with its malicious model.

        Raises UserError if the model lacks layers that the attack needs, or if clients do not send these layers'
        gradients.
        """
        if self.variant == "published":
            return bins.build(model, knowledge)
        return Aware(gates.build(model, knowledge, self.batch), _prior(model, knowledge))


@dataclass(frozen=True)
class Aware:
    """The prepared variant `aware`. prior: [vocabulary], the log share of each word in public texts."""

    gates: gates.Gates
    prior: NDArray[np.float64] = field(repr=False)

    @property
    def model(self) -> SharedModel:
        """The malicious model."""
        return self.gates.model

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the likeliest texts, in the order of the sent labels and lengths. `generator` is not used."""
        frame = self.model.framed([-1])
        first, special = frame.index(-1), len(frame) - 1
        lengths = tuple(length - special for length in sent.lengths)
        rows = self.gates.rows(sent)[first : first + max(lengths)]
        signs = tuple(-1 if label == 0 else 1 for label in sent.labels) or (0,) * len(lengths)
        noise = self.gates.noise(sent)
        words = superposition.read(
            superposition.WordsRead(rows, self.gates.codes, self.prior, noise, lengths=lengths, signs=signs)
        )
        return Reconstruction(tuple(tuple(map(int, ids)) for ids in words), {"noise": noise})


def _prior(model: SharedModel, knowledge: Knowledge) -> NDArray[np.float64]:
    """Return the logarithm [vocabulary] of each word's smoothed share in public texts; -inf for special tokens."""
    counts = np.full(len(model.words), SMOOTHING)
    for ids in model.encode(knowledge.public):
        np.add.at(counts, ids, 1.0)
    meaningless = {number for word, number in model.tokenizer.get_vocab().items() if _UNUSED.fullmatch(word)}
    counts[sorted(model.special | meaningless)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts / counts.sum()))
