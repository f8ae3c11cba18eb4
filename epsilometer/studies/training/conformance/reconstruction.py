"""Conformance tests of a reconstruction attack."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer.auditing.conformance.rules import TEXTS, Check, Rule, checked, lacks, refuses
from epsilometer.studies.training.attacks.reconstruction.shared.attack import (
    Knowledge,
    Prepared,
    Reconstruction,
    ReconstructionAttack,
)
from epsilometer.studies.training.runs.noise import GaussianNoise
from epsilometer.studies.training.runs.sent import Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel

_SIGMA = 0.01
_BATCHES = (1, 2)  # numbers of texts of a client


def check_reconstruction(
    attack: ReconstructionAttack, model: SharedModel, texts: tuple[str, ...] = TEXTS
) -> list[Check]:
    """Check a reconstruction attack. model: the server's model; texts: two texts of the client, then public texts."""
    return checked(_Checks(attack, model, texts).rules())


@dataclass(frozen=True)
class _Checks:
    attack: ReconstructionAttack
    model: SharedModel
    texts: tuple[str, ...]

    def rules(self) -> Iterator[Rule]:
        yield "prepare exists and returns an object with a model and a method reconstruct", self._interface
        yield "reconstruct returns one text of the model's tokens for each sent text", self._tokens
        yield "equal streams give equal texts", self._deterministic
        yield "the server's model and the sent update stay unchanged", self._untouched

    def _prepared(self) -> Prepared:
        public = self.texts[max(_BATCHES) :]
        return self.attack.prepare(self.model, Knowledge(public, GaussianNoise(_SIGMA), np.random.default_rng(0)))

    def _sent(self, ready: Prepared, count: int) -> Sent:
        ids = self.model.encode(self.texts[:count])
        labels = [i % 2 for i in range(count)]
        return send(ready.model, ids, labels, GaussianNoise(_SIGMA), generator=np.random.default_rng(1))

    def _reconstructed(self, count: int) -> Any:
        ready = self._prepared()
        return ready.reconstruct(self._sent(ready, count), np.random.default_rng(2))

    def _interface(self) -> str | None:
        if problem := lacks(self.attack, "prepare", 2):
            return problem
        ready = self._prepared()
        if not isinstance(getattr(ready, "model", None), SharedModel):
            return "the object returned by prepare has no `model`; add the model that the server sends out"
        if not callable(getattr(ready, "reconstruct", None)):
            return "the object returned by prepare has no method reconstruct; add it"
        return refuses(ready, "reconstruct", 2)

    def _tokens(self) -> str | None:
        tokens = set(range(len(self.model.words))) - self.model.special
        for count in _BATCHES:
            reconstruction = self._reconstructed(count)
            if not isinstance(reconstruction, Reconstruction):
                return "reconstruct must return a Reconstruction"
            if len(reconstruction.ids) != count:
                return f"{len(reconstruction.ids)} texts were returned for {count}; return one per text of the batch"
            if not all(type(token) is int and token in tokens for text in reconstruction.ids for token in text):
                return "ids must be whole numbers of the model's tokens, without special ones"
            if max(map(len, reconstruction.ids)) > self.model.longest:
                return (
                    f"a text has more than {self.model.longest} tokens, the length at which texts are truncated; "
                    "return shorter texts"
                )
        return None

    def _deterministic(self) -> str | None:
        if self._reconstructed(1).ids == self._reconstructed(1).ids:
            return None
        return "two runs with equal streams differ; draw from knowledge.generator and the given generator alone"

    def _untouched(self) -> str | None:
        before = _digest(self.model)
        ready = self._prepared()
        sent = self._sent(ready, 1)
        update = sent.update.copy()
        ready.reconstruct(sent, np.random.default_rng(2))
        if _digest(self.model) != before:
            return "the parameters of the server's model changed; make another model with `with_parameters`"
        if not np.array_equal(sent.update, update):
            return "the sent update changed; work on a copy"
        return None


def _digest(model: SharedModel) -> str:
    digest = hashlib.blake2b()
    for tensor in model.network.state_dict().values():
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
