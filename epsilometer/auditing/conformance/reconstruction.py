"""The rules of a reconstruction attack."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer.attacks.reconstruction.shared.attack import Knowledge, Prepared, Reconstruction, ReconstructionAttack
from epsilometer.auditing.conformance.rules import TEXTS, Check, Rule, checked, lacks, refuses
from epsilometer.training.noise import GaussianNoise
from epsilometer.training.sent import Sent, send
from epsilometer.training.shared_model import SharedModel

_SIGMA = 0.01
_BATCHES = (1, 2)  # texts of a client


def check_reconstruction(
    attack: ReconstructionAttack, model: SharedModel, texts: tuple[str, ...] = TEXTS
) -> list[Check]:
    """Return the checks of a reconstruction attack.

    model: the server's model; texts: two of a client, and others that are public.
    """
    return checked(_Checks(attack, model, texts).rules())


@dataclass(frozen=True)
class _Checks:
    attack: ReconstructionAttack
    model: SharedModel
    texts: tuple[str, ...]

    def rules(self) -> Iterator[Rule]:
        yield "prepare is there, and gives what has a model and reconstructs", self._interface
        yield "it finds as many texts as were sent, of the model's tokens", self._tokens
        yield "the same streams give the same texts", self._deterministic
        yield "the server's model and what was sent stay as they are", self._untouched

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
            return "what prepare returns must have `model`, the one that the server sends out"
        if not callable(getattr(ready, "reconstruct", None)):
            return "what prepare returns must have a method reconstruct"
        return refuses(ready, "reconstruct", 2)

    def _tokens(self) -> str | None:
        tokens = set(range(len(self.model.words))) - self.model.special
        for count in _BATCHES:
            reconstruction = self._reconstructed(count)
            if not isinstance(reconstruction, Reconstruction):
                return "reconstruct must return a Reconstruction"
            if len(reconstruction.ids) != count:
                return f"of {count} texts {len(reconstruction.ids)} came back; give one a text of the batch"
            if not all(type(token) is int and token in tokens for text in reconstruction.ids for token in text):
                return "ids must be whole numbers, of tokens that the model has and that are not special"
            if max(map(len, reconstruction.ids)) > self.model.longest:
                return f"a text has more than the {self.model.longest} tokens that are read of one"
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
            return "the parameters of the server's own model changed; `with_parameters` gives another model"
        if not np.array_equal(sent.update, update):
            return "the update that was sent changed; work on a copy"
        return None


def _digest(model: SharedModel) -> str:
    digest = hashlib.blake2b()
    for tensor in model.network.state_dict().values():
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
