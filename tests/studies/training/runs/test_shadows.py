"""Heads trained together equal heads trained one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Schedule, Shuffled
from epsilometer.studies.training.runs.heads import BertHead, GptHead, Head
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, TrainingNoise
from epsilometer.studies.training.runs.private import Settings, train
from epsilometer.studies.training.runs.shadows import answers, train_together
from tests.support.refusals import refused

TEXTS, WIDTH, MODELS = 40, 6, 3


def data(seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(2 * TEXTS, WIDTH)).astype(np.float32)
    return states, (states[:, 0] + rng.normal(0, 0.3, 2 * TEXTS) > 0).astype(np.int64)


def heads(kind: str, dropout: float = 0.2) -> Head:
    rng = np.random.default_rng(1)
    if kind == "bert":
        vector = rng.normal(0, 0.3, (MODELS, (WIDTH + 1) * (WIDTH + 2))).astype(np.float32)
        return BertHead(vector, WIDTH, 2, dropout)
    return GptHead(rng.normal(0, 0.3, (MODELS, 4 * WIDTH)).astype(np.float32), WIDTH, 2)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize(
    ("schedule", "noise"),
    [
        (Poisson(TEXTS, 8, 3), NoNoise(None)),
        (Shuffled(TEXTS, 8, 3), GaussianNoise(0.5)),
        (Poisson(TEXTS, 20, 4), GaussianNoise(1.0)),
        (Shuffled(TEXTS, 8, 2), DirectionalNoise(30.0)),
        (Poisson(TEXTS, 1, 1), NoNoise(1.0)),
    ],
    ids=["plain", "gaussian", "poisson", "vmf", "empty batches"],
)
def test_equal_to_single_trainings(kind: str, schedule: Schedule, noise: TrainingNoise) -> None:
    """The same texts, first heads, batches, dropout and noise; sums in another order differ in their last bits."""
    states, labels = data()
    rng = np.random.default_rng(2)
    chosen = np.stack([rng.permutation(2 * TEXTS)[:TEXTS] for _ in range(MODELS)])
    first = heads(kind)
    settings = [Settings(schedule, noise, 0.01, seed=seed) for seed in (5, 6, 7)]
    before = first.vector.copy()
    together = train_together(first, states, labels, chosen, settings)
    assert (first.vector == before).all()
    for model, rows in enumerate(chosen):
        alone = train(replace(first, vector=before[model]), states[rows], labels[rows], settings[model])
        moved = float(np.abs(alone.head.vector - before[model]).max())
        assert moved > 0.05
        assert together.vector[model] == pytest.approx(alone.head.vector, abs=1e-4 * moved)
    shown = answers(together, states)
    assert shown[1] == pytest.approx(replace(together, vector=together.vector[1]).log_probabilities(states), abs=1e-6)
    assert np.exp(shown).sum(axis=-1) == pytest.approx(1)


def test_a_model_does_not_depend_on_its_block() -> None:
    states, labels = data()
    chosen = np.stack([np.arange(TEXTS) + 5 * model for model in range(MODELS)])
    settings = [Settings(Poisson(TEXTS, 8, 4), GaussianNoise(1.0), 0.01, seed=seed) for seed in range(MODELS)]
    first = heads("bert")
    every = train_together(first, states, labels, chosen, settings).vector
    last = train_together(replace(first, vector=first.vector[2:]), states, labels, chosen[2:], settings[2:]).vector
    assert last[0] == pytest.approx(every[2], abs=1e-5)
    assert np.abs(every[0] - every[2]).max() > 0.05


def test_what_does_not_fit_is_refused() -> None:
    states, labels = data()
    settings = [Settings(Poisson(TEXTS, 8, 1), NoNoise(None), 0.01, seed=seed) for seed in range(MODELS)]
    with refused("EPS-T036", "40", "39"):
        train_together(heads("bert"), states, labels, np.zeros((MODELS, TEXTS - 1), np.int64), settings)
    with refused("EPS-T037", "0"):
        train_together(heads("bert"), states, labels, np.zeros((MODELS, TEXTS), np.int64), settings)
    unlike = [*settings[:2], replace(settings[2], rate=1.0)]
    with pytest.raises(ValueError, match="seed"):
        train_together(heads("bert"), states, labels, np.zeros((MODELS, TEXTS), np.int64), unlike)


def test_probabilities_that_underflow_have_logarithms() -> None:
    head = GptHead(np.concatenate([np.ones(WIDTH), np.zeros(WIDTH), np.full(WIDTH, 400.0), -np.full(WIDTH, 400.0)])
                   .astype(np.float32), WIDTH, 2)  # fmt: skip
    states = np.array([[3, 0, 0, 0, 0, 0.0]], np.float32)
    skewed = replace(head, vector=head.vector.copy())
    skewed.parameters["score.weight"][:, 1:] = 0
    log_p = skewed.log_probabilities(states)
    assert skewed.probabilities(states).min() == 0
    assert -2000 < log_p.min() < -700
    assert skewed.losses(states, np.array([1]))[0] == -log_p[0, 1]
