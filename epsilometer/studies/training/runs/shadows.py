"""Training of many heads at once with equal settings, each on its own texts.

These heads are the references of membership attacks. The features are shared, and the parameters of m models are one
array [m, d]. A step samples a batch for each model, pads the batches to one size, and computes forward and backward
passes as batched matrix products. Clipping and noise are applied to each model separately. So a reference, private or
not, equals the result of `private.train` for the same texts, initial head and settings, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.sampling import batches
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.optimisers import optimiser
from epsilometer.studies.training.runs.factored import Factor, FactoredGradients
from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.heads import Head
from epsilometer.studies.training.runs.private import Settings

_ROWS = 1 << 11  # number of texts that a model processes at a time


def train_together(
    head: Head,
    states: NDArray[np.float32],
    labels: NDArray[np.integer],
    chosen: NDArray[np.integer],
    settings: Sequence[Settings],
) -> Head:
    """Train copies of m heads of one shape at once.

    head:     a stacked head with a vector [m, d].
    states:   [n, width], the features of all texts.
    labels:   [n], indices of classes.
    chosen:   [m, N], the row numbers of each model's N training texts.
    settings: the settings of each model, equal except for the seed.
    Raises UserError if a model's texts do not fit the schedule or have a single class.
    """
    _check(head, labels, chosen, settings)
    head = replace(head, vector=head.vector.copy())
    recipe = settings[0]
    mover = optimiser(recipe.optimizer, recipe.rate)
    draws = [batches(setting.schedule, setting.streams("batches")) for setting in settings]
    dropout = [setting.streams("dropout") for setting in settings]
    noises = [setting.streams("noise", repr(setting.noise)) for setting in settings]
    update = np.empty_like(head.vector)
    for step in range(recipe.schedule.steps):
        step_rows = [rows[next(draw)] for rows, draw in zip(chosen, draws, strict=True)]
        batch = _padded(step_rows)
        masks = _masks(head, batch, dropout, step) if recipe.dropout else None
        gradients = head.gradients(states[batch.rows], labels[batch.rows], masks)
        for model, size in enumerate(batch.sizes):
            generator = noises[model].generator(step)
            own = _of_one(gradients, model, size)
            update[model] = settings[model].noise.update(own, recipe.schedule.expected_batch, generator)
        mover.step(head.vector, update, step + 1)
    return head


def answers(head: Head, states: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the log probabilities [m, n, classes] of states [n, width] by a stacked head with a vector [m, d]."""
    out = np.empty((len(head.vector), len(states), head.classes))
    for model, vector in enumerate(head.vector):
        trained = replace(head, vector=vector)
        for start in range(0, len(states), _ROWS):
            out[model, start : start + _ROWS] = trained.log_probabilities(states[start : start + _ROWS])
    return out


@dataclass(frozen=True)
class _Batch:
    """A batch per model. rows: int [m, L], row numbers, padded with 0 to the largest size L; sizes: the batch sizes."""

    rows: NDArray[np.int64]
    sizes: list[int]


def _padded(step_rows: Sequence[NDArray[np.integer]]) -> _Batch:
    sizes = [len(rows) for rows in step_rows]
    padded = np.zeros((len(sizes), max(sizes)), np.int64)
    for row, rows in zip(padded, step_rows, strict=True):
        row[: len(rows)] = rows
    return _Batch(padded, sizes)


def _masks(head: Head, batch: _Batch, streams: Sequence[Noise], step: int) -> NDArray[np.float32] | None:
    """Return dropout masks [m, L, width], each model's from its own stream; None if the head has no dropout."""
    padded = np.ones((*batch.rows.shape, head.width), np.float32)
    for row, size, stream in zip(padded, batch.sizes, streams, strict=True):
        masks = head.masks(size, stream.generator(step))
        if masks is None:
            return None
        row[:size] = masks
    return padded


def _of_one(gradients: ExampleGradients, model: int, size: int) -> FactoredGradients:
    """Return the gradients of one model's batch, without padding."""
    assert isinstance(gradients, FactoredGradients), "only heads with closed-form gradients can be trained together"
    sides = [(factor.left, factor.right) for factor in gradients.factors]
    return FactoredGradients(
        [Factor(left[model, :size], None if right is None else right[model, :size]) for left, right in sides]
    )


def _check(head: Head, labels: NDArray[np.integer], chosen: NDArray[np.integer], settings: Sequence[Settings]) -> None:
    if not len(head.vector) == len(chosen) == len(settings):
        raise ValueError(f"{len(head.vector)} heads, {len(chosen)} sets of texts, {len(settings)} settings")
    if len({replace(setting, seed=None) for setting in settings}) > 1:
        raise ValueError("models that are trained together must have equal settings except for the seed")
    if chosen.shape[1] != settings[0].schedule.texts:
        raise UserError(
            f"the schedule is for {settings[0].schedule.texts} training texts, but each reference has "
            f"{chosen.shape[1]}; train references on as many texts as the target",
            "EPS-T036",
        )
    for model, rows in enumerate(chosen):
        if len(np.unique(labels[rows])) < 2:
            raise UserError(
                f"the training texts of reference {model} have a single class; give more texts, or another label",
                "EPS-T037",
            )
