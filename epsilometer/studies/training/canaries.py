"""Canaries for the entries of `one_run`, and the adversary's data from a training with canaries."""

from __future__ import annotations

from dataclasses import replace

from epsilometer.core.guarantees import Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.one_run.training import ClaimedTraining
from epsilometer.studies.training.params import OneRunEntry, TrainingParams
from epsilometer.studies.training.runs import gradient_canaries
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.gradient_canaries import Run
from epsilometer.studies.training.runs.noise import TrainingNoise
from epsilometer.studies.training.runs.planted import (
    States,
    mislabelled,
    planted,
    random_token_texts,
    randomly_labelled,
)
from epsilometer.studies.training.runs.private import Settings
from epsilometer.studies.training.trainings import (
    classes,
    first_head,
    schedule,
    settings,
    stream_seed,
    training_count,
    training_texts,
)


def _neighbours(entry: OneRunEntry) -> Neighbours:
    return Neighbours.REPLACED if entry.noise.kind == "vmf" else Neighbours.ADDED_OR_REMOVED


def white_box(params: TrainingParams, entry: OneRunEntry, training_noise: TrainingNoise) -> tuple[Run, ClaimedTraining]:
    """Compute a training's updates from gradient canaries, without a model. Returns the run and the claim."""
    steps = schedule(params.private_training[entry.training], training_count(params, entry.training))
    replaced = _neighbours(entry) is Neighbours.REPLACED
    size = first_head(params, entry.training, 0).size if replaced else entry.canaries + 1
    canaries = gradient_canaries.Canaries(entry.canaries, size, replaced)
    run = gradient_canaries.run(canaries, training_noise, steps, stream_seed(params, 0))
    return run, ClaimedTraining(training_noise.release((size,)), steps, _neighbours(entry))


def black_box(
    params: TrainingParams, entry: OneRunEntry, training_noise: TrainingNoise, canaries: tuple[States, States]
) -> tuple[Run, ClaimedTraining]:
    """Train a head on texts with planted canaries. Returns the run, scored by the head's losses, and the claim.

    canaries: as `planted_canaries` returns them.
    """
    head = first_head(params, entry.training, 0)

    def settings_for(texts: int) -> Settings:
        return replace(settings(params, entry.training, texts, None, seed=0), noise=training_noise)

    replaced = _neighbours(entry) is Neighbours.REPLACED
    run, steps = planted(head, *canaries, settings_for=settings_for, replaced=replaced)
    return run, ClaimedTraining(training_noise.release(head.parts), steps, _neighbours(entry))


def planted_canaries(params: TrainingParams, entry: OneRunEntry) -> tuple[States, States]:
    """Return the canaries, and the training texts that did not become canaries."""
    texts = training_texts(params, entry.training)
    others = States(texts.states, texts.labels, texts.labels)
    generator = Noise.named(1, stream_seed(params, 0), "canaries", entry.kind).generator(0)
    count = len(classes(params, entry.training))
    if entry.kind == "mislabelled":
        return mislabelled(others, count, entry.canaries, generator)
    features = params.features[entry.features]
    frozen = Frozen(features.model, features.length)
    made_up = random_token_texts(frozen.tokenizer, features.length, entry.canaries, generator)
    return randomly_labelled(frozen.states(made_up), count, generator), others
