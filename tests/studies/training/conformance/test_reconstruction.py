"""Conformance tests of reconstruction attacks: a shipped attack passes, and broken ones do not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epsilometer.studies.training.attacks.reconstruction.decepticons import Decepticons
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge, Reconstruction
from epsilometer.studies.training.conformance.reconstruction import check_reconstruction
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel
from tests.support.tiny_models import save_word_bert

PIECES = [f"w{i}" for i in range(60)]
TEXTS = tuple(" ".join(PIECES[(7 * i + j * j) % 60] for j in range(6)) for i in range(30))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SharedModel:
    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 256}
    folder: Path = save_word_bert(tmp_path_factory.mktemp("bert"), PIECES, **sizes)
    return SharedModel(folder, longest=16)


def failed(attack: Any, model: SharedModel) -> list[str]:
    return [check.rule for check in check_reconstruction(attack, model, TEXTS) if check.problem is not None]


@dataclass(frozen=True)
class Guesses:
    """Words at random, as an attack should return them; those below break a rule each."""

    model: SharedModel | None = None

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Guesses:
        return type(self)(model)

    def tokens(self, generator: np.random.Generator) -> list[int]:
        assert self.model is not None
        return [token for token in generator.integers(len(self.model.words), size=6).tolist() if self.fits(token)]

    def fits(self, token: int) -> bool:
        assert self.model is not None
        return token not in self.model.special

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        return Reconstruction(tuple(tuple(self.tokens(generator)) for _ in sent.lengths))


class OneText(Guesses):
    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        return Reconstruction(super().reconstruct(sent, generator).ids[:1])


class Framed(Guesses):
    def fits(self, token: int) -> bool:
        return True

    def tokens(self, generator: np.random.Generator) -> list[int]:
        assert self.model is not None
        return self.model.framed(super().tokens(generator))


class Endless(Guesses):
    def tokens(self, generator: np.random.Generator) -> list[int]:
        return [token for _ in range(10) for token in super().tokens(generator)]


class Global(Guesses):
    def tokens(self, generator: np.random.Generator) -> list[int]:
        return super().tokens(np.random.default_rng())


class Spoils(Guesses):
    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Guesses:
        with torch.no_grad():
            model.parameters[0].add_(1)
        return super().prepare(model, knowledge)


class Overwrites(Guesses):
    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        sent.update[:] = 0
        return super().reconstruct(sent, generator)


@pytest.mark.parametrize(
    ("attack", "rule"),
    [
        (object(), "prepare exists"),
        (OneText(), "reconstruct returns one text"),
        (Framed(), "reconstruct returns one text"),
        (Endless(), "reconstruct returns one text"),
        (Global(), "equal streams"),
        (Spoils(), "the server's model"),
        (Overwrites(), "the server's model"),
    ],
)
def test_what_is_broken_is_caught(attack: Any, rule: str, model: SharedModel) -> None:
    """Global's two texts are alike by chance once in 60^5."""
    assert [broken for broken in failed(attack, model) if broken.startswith(rule)]


def test_sound_attacks_pass(model: SharedModel) -> None:
    assert failed(Guesses(), model) == []
    assert failed(Decepticons(variant="published"), model) == []
