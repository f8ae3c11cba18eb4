"""What a reconstruction attack is: the gradient that a client sent in, token ids out. Knows no statistics.

An attack has two phases, since a malicious server acts before its client does:

1. `prepare`: everything that needs no gradient (probes, codebooks, language models), and the model that the server
   sends out. An honest server sends the model as it is; a malicious one sets parameters of its own
   (`SharedModel.with_parameters`). A stage asks once a model and noise, so what is the same for every noise may be
   cached.
2. `reconstruct`: one client's batch. The client computed its gradient by the model of phase 1.

Attacks are found by name or path, as mechanisms are: a file of this folder, one class with the method `prepare`.

    attack = build(find(KIND, "lamp", "prepare"), settings, "reconstruction.lamp")
    ready = attack.prepare(model, Knowledge(public=texts, noise=noise, generator=stream))
    found = ready.reconstruct(send(ready.model, ...), generator)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from epsilometer.training.noise import TrainingNoise
from epsilometer.training.sent import Sent
from epsilometer.training.shared_model import SharedModel


@dataclass(frozen=True)
class Knowledge:
    """What a server knows before a client answers.

    public: texts like the client's, none of them the client's. noise: the law of the noise, with its parameters (the
    clipping length among them). generator: the attack's own stream for phase 1.
    """

    public: Sequence[str]
    noise: TrainingNoise
    generator: np.random.Generator = field(compare=False)


@dataclass(frozen=True)
class Reconstruction:
    """The texts that an attack found, as token ids without special tokens: one a text of the batch, in any order.

    notes: numbers that say how the search went, by name, for the tables.
    """

    ids: tuple[tuple[int, ...], ...]
    notes: Mapping[str, float] = field(default_factory=dict)


class Prepared(Protocol):
    """An attack that is ready for clients. model: the one that the server sends out."""

    @property
    def model(self) -> SharedModel:
        """The model by which clients compute their gradients."""
        ...

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """The texts of one batch, as many as were sent."""
        ...


class Attack(Protocol):
    """A component (`core.component`) whose settings are the attack's."""

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """Raises UserError, naming what is missing, for a model without the layers that the attack needs."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A prepared attack that can say how well any texts explain what was sent, the true ones for instance."""

    def explain(self, sent: Sent, ids: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """Numbers by name (`log_likelihood`, `log_prior`), in nats, of a batch of texts, plain ids in their order."""
        ...


@runtime_checkable
class Starts(Protocol):
    """A prepared attack that goes on from what another one found."""

    def improve(self, sent: Sent, begun: Reconstruction, generator: np.random.Generator) -> Reconstruction:
        """As `reconstruct`, from there."""
        ...
