"""A head that memorises its texts reveals its canaries; a head trained with noise does not."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.accounting.schedule import Poisson
from epsilometer.studies.training.runs.gradient_canaries import Run
from epsilometer.studies.training.runs.heads import BertHead
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, TrainingNoise
from epsilometer.studies.training.runs.planted import States, mislabelled, planted, randomly_labelled
from epsilometer.studies.training.runs.private import Settings

WIDTH, TEXTS = 40, 60


def texts() -> States:
    """Directions that are all but orthogonal, and labels that nothing tells."""
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=TEXTS)
    return States(rng.standard_normal((TEXTS, WIDTH)).astype(np.float32), labels, labels)


def learned(noise: TrainingNoise, replaced: bool = False) -> tuple[Run, list[int]]:
    vector = (np.random.default_rng(2).standard_normal((WIDTH + 1) * (WIDTH + 2)) / 6).astype(np.float32)
    counts: list[int] = []

    def settings_for(count: int) -> Settings:
        counts.append(count)
        return Settings(Poisson(count, count, 60), noise, rate=0.05, dropout=False)

    canaries, others = mislabelled(texts(), 2, 40, np.random.default_rng(3))
    run, schedule = planted(BertHead(vector, WIDTH, 2), canaries, others, settings_for=settings_for, replaced=replaced)
    assert schedule.texts == counts[-1]
    return run, counts


def test_without_noise_a_head_gives_its_canaries_away() -> None:
    run, counts = learned(NoNoise())
    assert counts == [60, 20 + int(run.coins.sum())]
    assert run.scores["loss"][run.coins].min() > np.median(run.scores["loss"][~run.coins])
    run, counts = learned(NoNoise(), replaced=True)
    assert set(counts) == {60}
    assert ((run.scores["loss"] > 0) == run.coins).all()


@pytest.mark.parametrize("noise", [GaussianNoise(500.0), DirectionalNoise(0.01)])
def test_with_much_noise_it_does_not(noise: TrainingNoise) -> None:
    """Of 40 fair guesses more than 35, or less than 5, are right with a probability of 3e-7."""
    run, _ = learned(noise, replaced=isinstance(noise, DirectionalNoise))
    above = run.scores["loss"] > np.median(run.scores["loss"])
    assert 5 <= (above == run.coins).sum() <= 35


def test_canaries_have_two_labels() -> None:
    canaries, others = mislabelled(texts(), 2, 40, np.random.default_rng(3))
    assert (canaries.labels != canaries.others).all()
    right = {state.tobytes(): label for state, label in zip(texts().states, texts().labels, strict=True)}
    assert [right[state.tobytes()] for state in canaries.states] == canaries.others.tolist()
    assert len({*map(np.ndarray.tobytes, [*canaries.states, *others.states])}) == TEXTS
    random = randomly_labelled(texts().states, 3, np.random.default_rng(4))
    assert (random.labels != random.others).all()
    assert {*random.labels} == {0, 1, 2}
