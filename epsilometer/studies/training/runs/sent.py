"""The message of a client: the noisy gradient of one batch of its texts.

There are two kinds of noise:

- **as in training** (`runs.noise`): each text's gradient is clipped or scaled, noise is added to the sum or to each
  direction, and the sum is divided by the public batch size. The accountants cover this noise.
- **as published with the attacks** (`OnMean`): noise of one scale on all coordinates is added to the mean of unclipped
  gradients. The noise is Laplace (the default of the library breaching) or Gaussian (LAMP's defence). A text's gradient
  is not bounded, so this noise gives no privacy and claims nothing.

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

if TYPE_CHECKING:  # the module loads torch, which code that only shows or checks results does not need
    from epsilometer.studies.training.runs.shared_model import SharedModel, Target


@dataclass(frozen=True)
class OnMean:
    """Noise on each number of the mean of unclipped gradients.

    scale: the standard deviation of Gaussian noise, or the scale of Laplace noise; law: the kind of noise.
    """

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
        """Return the noisy mean [d] of the gradients."""
        mean = gradients.weighted_sum(np.full(gradients.count, 1 / float(expected_batch)))
        if not self.scale:
            return mean
        gaussian = self.law == "gaussian"
        draw = generator.standard_normal(len(mean), np.float32) if gaussian else generator.laplace(size=len(mean))
        return (mean + np.float32(self.scale) * draw.astype(np.float32)).astype(np.float32)

    def release(self, parts: Sequence[int]) -> None:
        """Return None: a text's contribution is not bounded, so there is no epsilon."""
        return


@dataclass(frozen=True)
class Sent:
    """All that the server sees of one client's step.

    update:  float32 [d], the noisy mean gradient over the model's tensors, in the order of `SharedModel.names`.
    model:   the model with the parameters that the server sent out.
    noise:   the law of the noise, whose parameters are public.
    labels:  [L], the labels of the texts; empty if the objective has no labels.
    lengths: [L], the number of tokens of each text, including special tokens.
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
    """Return a client's message for one batch of texts.

    sequences: the token ids of the texts (`SharedModel.encode`).
    targets: the labels, or other targets of the objective (`shared_model.Target`).
    Raises UserError for an empty batch and for missing labels.
    """
    if not sequences:
        raise UserError("a batch must contain at least one text, got none", "EPS-T033")
    if len(targets) != len(sequences):
        raise UserError(f"every text needs a label, got {len(targets)} labels for {len(sequences)} texts", "EPS-T034")
    if model.objective == "classification" and not all(isinstance(target, int) for target in targets):
        raise UserError("the gradient of a text needs a label, but some texts have none; label all texts", "EPS-T035")
    gradients = DenseGradients(model.gradients(sequences, targets), model.parts)
    update = noise.update(gradients, len(sequences), generator)
    labels = tuple(int(target) for target in targets if isinstance(target, int))
    return Sent(update, model, noise, labels=labels, lengths=tuple(map(len, sequences)))
