"""The interface of reconstruction attacks, which turn a client's gradient into token ids. They compute no statistics.

An attack has two phases, because a malicious server acts before its client does:

1. `prepare` does all work that needs no gradient (probes, codebooks, language models), and returns the model that the
   server sends out. An honest server sends the model unchanged; a malicious server changes parameters
   (`SharedModel.with_parameters`). A stage calls `prepare` once, for one batch size and noise level.
2. `reconstruct` attacks one client's batch, whose gradient was computed with the model of phase 1. A stage calls
   `reconstruct` for each batch.

Like a mechanism, an attack is given by name or path. Its file has one class with the method `prepare`.

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

if TYPE_CHECKING:  # the module loads torch, which code that only shows or checks results does not need
    from epsilometer.studies.training.runs.shared_model import SharedModel


@dataclass(frozen=True)
class Knowledge:
    """The server's knowledge before a client answers.

    public:    texts similar to the client's texts; none of them is the client's.
    noise:     the law of the noise, with its parameters, including the clipping length.
    generator: the random stream of phase 1.
    """

    public: Sequence[str]
    noise: TrainingNoise
    generator: np.random.Generator = field(compare=False)


@dataclass(frozen=True)
class Reconstruction:
    """The result of an attack.

    ids:   token ids without special tokens, one tuple for each text sent, in any order.
    notes: numbers about the search by name, for tables.
    """

    ids: tuple[tuple[int, ...], ...]
    notes: Mapping[str, float] = field(default_factory=dict)


class Prepared(Protocol):
    """An attack that is ready for clients."""

    @property
    def model(self) -> SharedModel:
        """The model that the server sends out, with which clients compute their gradients."""
        ...

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of one batch, as many as were sent."""
        ...


class ReconstructionAttack(Protocol):
    """A reconstruction attack: a component (`core.component`) with the attack's settings."""

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """Return the attack, ready for clients.

        Raises UserError if the model lacks layers that the attack needs; the message names them.
        """
        ...


@runtime_checkable
class Explains(Protocol):
    """A prepared attack that can score how well given texts, such as the true ones, explain the sent gradient."""

    def explain(self, sent: Sent, ids: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """Return `log_likelihood` and `log_prior` in nats. ids: the texts of a batch, without special tokens."""
        ...


@runtime_checkable
class Starts(Protocol):
    """A prepared attack that can start from another attack's result."""

    def improve(self, sent: Sent, begun: Reconstruction, generator: np.random.Generator) -> Reconstruction:
        """Return texts as `reconstruct` does, starting from `begun`."""
        ...
