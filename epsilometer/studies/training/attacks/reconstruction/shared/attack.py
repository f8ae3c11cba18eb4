"""The interface of a reconstruction attack: a client's gradient in, token ids out, without statistics.

An attack has two phases, because a malicious server acts before its client does:

1. `prepare`: everything that needs no gradient (probes, codebooks, language models), and the model that the server
   sends out. An honest server sends the model unchanged; a malicious one sets parameters of its own
   (`SharedModel.with_parameters`). A stage calls this once for each model and noise, so what is the same for every
   noise may be cached.
2. `reconstruct`: one client's batch. The client computed its gradient by the model of phase 1.

Like mechanisms, attacks are found by name or path: a file with one class that has the method `prepare`.

    attack = build(find("attacks/reconstruction", "lamp", "prepare"), settings, "reconstruction.lamp")
    ready = attack.prepare(model, Knowledge(public=texts, noise=noise, generator=stream))
    found = ready.reconstruct(send(ready.model, ...), generator)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from epsilometer.studies.training.runs.noise import TrainingNoise
from epsilometer.studies.training.runs.sent import Sent

if TYPE_CHECKING:  # it loads torch, which showing and checking results need not
    from epsilometer.studies.training.runs.shared_model import SharedModel


@dataclass(frozen=True)
class Knowledge:
    """The server's knowledge before a client answers.

    public: texts similar to the client's, but none of the client's own. noise: the law of the noise, with its
    parameters, including the clipping length. generator: the attack's own stream for phase 1.
    """

    public: Sequence[str]
    noise: TrainingNoise
    generator: np.random.Generator = field(compare=False)


@dataclass(frozen=True)
class Reconstruction:
    """The texts that an attack found, as token ids without special tokens: one for each text sent, in any order.

    notes: numbers about the search, by name, for the tables.
    """

    ids: tuple[tuple[int, ...], ...]
    notes: Mapping[str, float] = field(default_factory=dict)


class Prepared(Protocol):
    """An attack that is ready for clients. model: the model that the server sends out."""

    @property
    def model(self) -> SharedModel:
        """The model by which clients compute their gradients."""
        ...

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of one batch, as many as were sent."""
        ...


class ReconstructionAttack(Protocol):
    """A component (`core.component`) whose settings are the attack's."""

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """Return the attack, ready for clients.

        Raises UserError, naming what is missing, for a model without the layers that the attack needs.
        """
        ...


@runtime_checkable
class Explains(Protocol):
    """A prepared attack that scores how well any given texts, such as the true ones, explain the sent gradient."""

    def explain(self, sent: Sent, ids: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """Return numbers by name (`log_likelihood`, `log_prior`), in nats; ids: the plain ids of a batch of texts."""
        ...


@runtime_checkable
class Starts(Protocol):
    """A prepared attack that can start from another attack's result."""

    def improve(self, sent: Sent, begun: Reconstruction, generator: np.random.Generator) -> Reconstruction:
        """Return texts as `reconstruct` does, starting from `begun`."""
        ...
