"""The message of a client: the gradient of one batch of its texts, noised.

There are two kinds of noise:

- **as in training** (`training.noise`): each text's gradient is clipped or scaled to length 1, noise is added to their
    sum or drawn for each, and the result divided by the batch, whose size is public. The accountants cover these.
  - **as published with the attacks** (`OnMean`): the mean of gradients that are neither clipped nor scaled, plus
  Laplace
    noise (breaching's default) or Gaussian noise (LAMP's defence) of one scale for every coordinate. Without a bound on
    a text's gradient it gives no privacy, and claims nothing.

The receiver knows the labels, the number of texts and their lengths in tokens, as the attacks assume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.studies.training.runs.gradients import DenseGradients, ExampleGradients
from epsilometer.studies.training.runs.noise import TrainingNoise

if TYPE_CHECKING:  # loads torch, which showing and checking results do not need
    from epsilometer.studies.training.runs.shared_model import SharedModel, Target


@dataclass(frozen=True)
class OnMean:
    """Noise of standard deviation (Gaussian) or scale (Laplace) `scale` on each number of the unclipped mean."""

    scale: float
    law: Literal["gaussian", "laplace"] = "gaussian"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale >= 0):
            raise UserError(f"the scale of noise must be a finite number >= 0, got {self.scale}", "EPS-T031")
        if self.law not in ("gaussian", "laplace"):
            raise UserError(f"law must be gaussian or laplace, got {self.law!r}", "EPS-T032")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the mean [d] of the gradients, noised."""
        mean = gradients.weighted_sum(np.full(gradients.count, 1 / float(expected_batch)))
        if not self.scale:
            return mean
        gaussian = self.law == "gaussian"
        draw = generator.standard_normal(len(mean), np.float32) if gaussian else generator.laplace(size=len(mean))
        return (mean + np.float32(self.scale) * draw.astype(np.float32)).astype(np.float32)

    def release(self, parts: Sequence[int]) -> None:
        """Return None: nothing bounds a text's contribution, so no epsilon exists."""
        return


@dataclass(frozen=True)
class Sent:
    """The server's view of one client's step, and nothing else.

    update: float32 [d], the noised mean over the model's tensors (`SharedModel.names`, in order). model: with the
    parameters that the server had sent out. noise: the law of the noise, whose parameters are public. labels: [L],
    given; empty where the objective has none. lengths: [L], the number of tokens of each text, special ones included.
    """

    update: NDArray[np.float32] = field(repr=False)
    model: SharedModel
    noise: TrainingNoise
    labels: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def texts(self) -> int:
        """L, the number of texts, by which the sum was divided."""
        return len(self.lengths)


def send(
    model: SharedModel,
    sequences: Sequence[Sequence[int]],
    targets: Sequence[Target],
    noise: TrainingNoise,
    generator: np.random.Generator,
) -> Sent:
    """Return a client's message for one batch of texts; sequences: their token ids (`SharedModel.encode`).

    targets: labels, or other targets of the objective (`shared_model.Target`). Raises UserError for an empty batch and
    for missing labels.
    """
    if not sequences:
        raise UserError("a batch must hold at least one text, got none", "EPS-T033")
    if len(targets) != len(sequences):
        raise UserError(f"every text needs a label, got {len(targets)} labels for {len(sequences)} texts", "EPS-T034")
    if model.objective == "classification" and not all(isinstance(target, int) for target in targets):
        raise UserError("some texts have no label, which their gradient needs; label all texts", "EPS-T035")
    gradients = DenseGradients(model.gradients(sequences, targets), model.parts)
    update = noise.update(gradients, len(sequences), generator)
    labels = tuple(int(target) for target in targets if isinstance(target, int))
    return Sent(update, model, noise, labels=labels, lengths=tuple(map(len, sequences)))
