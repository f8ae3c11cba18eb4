"""The training loop. A step samples a batch, computes its noisy gradient and makes an optimiser update.

A step releases the noisy sum of the batch's gradients (`noise.update`), divided by the public expected batch size. The
optimiser uses nothing else of private texts, so a claim for the noisy gradients (`accounting`) covers the trained head
by post-processing. The claim covers neither the choice of settings nor the statistics in `Trained` (norms, losses).
These are computed from private texts without noise, and stay in data/.

Each step has its own random streams for the batch, dropout masks and noise. A stream depends on the seed and the step.
The noise stream also depends on the settings of the noise, so no two steps or levels share their noise. Seeded streams
are for audits. A training whose head is published must use the operating system's randomness (`seed=None`). A resumed
seeded run gives the same bytes as an uninterrupted run.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.sampling import batches
from epsilometer.accounting.schedule import Schedule
from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.optimisers import AdamW, Descent, Name, optimiser
from epsilometer.runtime.progress import track
from epsilometer.studies.training.runs.heads import Head
from epsilometer.studies.training.runs.noise import TrainingNoise

SECONDS = 5.0  # minimum time between two checkpoints
_LOOKED_AT = 1024  # maximum number of texts whose mean loss is computed after each pass


@dataclass(frozen=True)
class Settings:
    """The settings of a head's training.

    schedule:  the schedule of batches, also used by the accountant.
    noise:     the noise on each step's gradients.
    rate:      the learning rate.
    optimizer: "adamw" or "sgd".
    dropout:   whether the head's dropout is used.
    seed:      the seed of all random streams. None uses the operating system's randomness, which cannot be repeated.
    """

    schedule: Schedule
    noise: TrainingNoise
    rate: float
    optimizer: Name = "adamw"
    dropout: bool = True
    seed: int | None = 0

    def streams(self, *name: str) -> Noise:
        """Return a random stream for each step, for the purpose `name`."""
        steps = self.schedule.steps
        if self.seed is None:
            return Noise.operating_system(steps)
        return Noise.named(steps, self.seed, "training", *name)


@dataclass(frozen=True)
class Trained:
    """A trained head, and the private history of its training.

    batches: [steps], the size of each batch.
    norms:   [steps], the mean length of a batch's gradients; NaN for an empty batch.
    losses:  [passes], the mean loss of up to 1,024 training texts after each pass, without dropout.
    """

    head: Head
    batches: NDArray[np.int64]
    norms: NDArray[np.float64]
    losses: NDArray[np.float64]


def train(
    head: Head,
    states: NDArray[np.float32],
    labels: NDArray[np.integer],
    settings: Settings,
    checkpoint: Path | None = None,
) -> Trained:
    """Train a copy of a head.

    states: [N, width].
    labels: [N], indices of classes.
    checkpoint: a file that is written from time to time and deleted at the end. If the file exists, training resumes
    there.

    Raises UserError, before the first step, if texts and labels do not fit the schedule or the head, if there are fewer
    than two classes, or if the checkpoint belongs to other settings, other texts or another head.
    """
    _check(head, states, labels, settings, checkpoint=checkpoint)
    run = _Run(replace(head, vector=head.vector.copy()), optimiser(settings.optimizer, settings.rate), settings)
    name = "" if checkpoint is None else _fingerprint(head, states, labels, settings)
    if checkpoint is not None and checkpoint.is_file():
        run.restore(checkpoint, name)
    saved = time.monotonic()
    for batch in track(batches(settings.schedule, run.draws, run.step), settings.schedule.steps - run.step, "training"):
        run.move(states[batch], labels[batch])
        if run.step % settings.schedule.batches == 0:
            run.look(states[:_LOOKED_AT], labels[:_LOOKED_AT])
        if checkpoint is not None and time.monotonic() - saved >= SECONDS:
            run.save(checkpoint, name)
            saved = time.monotonic()
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return Trained(run.head, run.sizes, run.norms, run.losses)


class _Run:
    """A training in progress."""

    def __init__(self, head: Head, optimiser: AdamW | Descent, settings: Settings) -> None:
        self.head, self.optimiser, self.settings = head, optimiser, settings
        self.step = 0
        self.sizes = np.zeros(settings.schedule.steps, np.int64)
        self.norms = np.full(settings.schedule.steps, np.nan)
        self.losses = np.full(settings.schedule.epochs, np.nan)
        self.draws = settings.streams("batches")
        self._masks = settings.streams("dropout")
        self._noise = settings.streams("noise", repr(settings.noise))

    def move(self, states: NDArray[np.float32], labels: NDArray[np.integer]) -> None:
        """Make one step with a batch, which may be empty."""
        masks = self.head.masks(len(labels), self._masks.generator(self.step)) if self.settings.dropout else None
        gradients = self.head.gradients(states, labels, masks)
        generator = self._noise.generator(self.step)
        update = self.settings.noise.update(gradients, self.settings.schedule.expected_batch, generator)
        self.sizes[self.step] = len(labels)
        if len(labels):
            self.norms[self.step] = gradients.norms().mean()
        self.step += 1
        self.optimiser.step(self.head.vector, update, self.step)

    def look(self, states: NDArray[np.float32], labels: NDArray[np.integer]) -> None:
        """Record the mean loss at the end of a pass."""
        self.losses[self.step // self.settings.schedule.batches - 1] = self.head.losses(states, labels).mean()

    def save(self, path: Path, name: str) -> None:
        """Write a checkpoint atomically. name: the fingerprint of the training's inputs."""
        from safetensors.numpy import save

        tensors = {"vector": self.head.vector, **self._counts(), **self.optimiser.state}
        with whole(path) as file:
            file.write(save(tensors, {"about": json.dumps([name, self.step])}))

    def restore(self, path: Path, name: str) -> None:
        """Resume from a checkpoint. Raises UserError if it is damaged or belongs to another training."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np") as file:
                of, self.step = json.loads((file.metadata() or {})["about"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise UserError(
                f"{path} cannot be read as a checkpoint of a training ({type(error).__name__}); delete it", "EPS-T023"
            ) from error
        if of != name:
            raise UserError(
                f"{path} is the checkpoint of a training with other settings, texts, labels or initial head; delete "
                "it, or restore these inputs",
                "EPS-T024",
            )
        self.head.vector[...] = tensors.pop("vector")
        for key, array in self._counts().items():
            array[...] = tensors.pop(key)
        self.optimiser.state |= tensors

    def _counts(self) -> dict[str, NDArray[Any]]:
        return {"sizes": self.sizes, "norms": self.norms, "losses": self.losses}


def _fingerprint(head: Head, states: NDArray[np.float32], labels: NDArray[np.integer], settings: Settings) -> str:
    """Return a hash of all inputs of the training except its code."""
    digest = hashlib.blake2b(repr((settings, type(head).__name__, head.about())).encode(), digest_size=16)
    for array in (head.vector, np.asarray(labels, np.int64), states):
        for start in range(0, len(array), 4096):
            digest.update(array[start : start + 4096].tobytes())
    return digest.hexdigest()


def _check(
    head: Head,
    states: NDArray[np.float32],
    labels: NDArray[np.integer],
    settings: Settings,
    checkpoint: Path | None,
) -> None:
    schedule = settings.schedule
    if not len(states) == len(labels) == schedule.texts:
        raise UserError(
            f"the schedule is for {schedule.texts} texts, got {len(states)} states and {len(labels)} labels, so the "
            "accountant would assume a different training; give a schedule for these texts",
            "EPS-T025",
        )
    if states.shape[1:] != (head.width,):
        raise UserError(
            f"the head takes states of {head.width} numbers, got {states.shape[1:]}; use features of its model",
            "EPS-T026",
        )
    seen = np.unique(labels)
    if len(seen) < 2:
        raise UserError("all training texts have the same class; give texts of at least 2 classes", "EPS-T027")
    if seen[0] < 0 or seen[-1] >= head.classes:
        raise UserError(
            f"the head has the classes 0 to {head.classes - 1}, got {seen[0]} to {seen[-1]}; give labels in that range",
            "EPS-T028",
        )
    if not settings.rate > 0:
        raise UserError(f"rate must be > 0, got {settings.rate}; 0.001 is common for heads", "EPS-T029")
    if checkpoint is not None and settings.seed is None:
        raise UserError(
            "a training with noise from the operating system cannot be resumed to the same bytes; leave out the "
            "checkpoint, or set a seed (anyone who knows it can compute the noise)",
            "EPS-T030",
        )
