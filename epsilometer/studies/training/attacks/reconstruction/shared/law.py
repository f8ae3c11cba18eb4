"""The likelihood of the sent gradient: a differentiable function of the inner products and lengths of gradients.

Let Y be the noised sum (the update times the batch size) and v_i the gradient of text i after clipping or scaling. Up
to terms that do not depend on a text,

    Gaussian:          ln p = (<sum_i v_i, Y> - |sum_i v_i|^2 / 2) / s^2,   s the deviation of the noise on the sum;
    von Mises-Fisher:  ln p = kappa <v, Y>   for one text, |v| = 1; with a draw per tensor, the sum over tensors.

The likelihood of one of several texts, given the others, is the first line with the others' v_i subtracted from Y. The
average of L von Mises-Fisher draws has no computable density. A Gaussian with its moments replaces it. For A the mean
cosine of a draw, these are the mean E Y = A sum_i v_i and the variance L A / kappa of a tangent coordinate. The code
then divides Y by A, and `exact` is False. A network's gradient has so many dimensions that the two laws hardly differ.
Without noise, the deviation is set to HAIR, so that likelihoods stay finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training.runs.inner_products import Products
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise
from epsilometer.studies.training.runs.sent import OnMean, Sent

HAIR = 1e-3  # deviation used without noise, for gradients of length 1
_NOTHING = 1e-12  # share of a gradient's squared length below which a part counts as rounding error


@dataclass(frozen=True)
class ConditionalLaw:
    """The likelihood of one text given the other texts of its batch.

    factor:    the factor that turns the update into Y, or into Y / A for an average of von Mises-Fisher draws.
    deviation: the standard deviation of Gaussian noise on Y; not used if kappa is positive.
    kappa:     the concentration of a von Mises-Fisher draw about one text; 0 for Gaussian noise.
    parts:     True for one von Mises-Fisher draw per tensor, False for one draw about the whole gradient.
    clip:      the length to which longer gradients are clipped, or None.
    gamma:     gradients are divided by their length plus this number; None without scaling.
    exact:     True for the true law, False for a Gaussian with its moments.
    """

    factor: float
    deviation: float = 0.0
    kappa: float = 0.0
    parts: bool = False
    clip: float | None = None
    gamma: float | None = None
    exact: bool = True

    def target(self, sent: Sent) -> list[Tensor]:
        """Return the noised sum Y as tensors of the model's shapes."""
        return sent.model.split(torch.from_numpy(sent.update).to(sent.model.device) * self.factor)

    def weight(self, lengths: Tensor) -> Tensor:
        """Return the factors [B] by which gradients of these lengths are multiplied before noise."""
        if self.gamma is not None:
            return 1 / (lengths + self.gamma).clamp_min(1e-30)
        return torch.ones_like(lengths) if self.clip is None else (self.clip / lengths).clamp(max=1.0)

    def log_likelihood(self, products: Products) -> Tensor:
        """Return the log-likelihoods [B], in nats, of texts whose gradients have these products with Y."""
        if self.kappa and self.parts:
            whole = products.squares.sum(1, keepdim=True)
            real = products.squares > _NOTHING * whole
            lengths = torch.where(real, products.squares, torch.ones_like(whole)).sqrt()
            return self.kappa * (products.inner / lengths * real).sum(1)
        lengths = products.squares.sum(1).sqrt()
        inner = products.inner.sum(1)
        if self.kappa:
            return self.kappa * inner / lengths.clamp_min(1e-30)
        weight = self.weight(lengths)
        return (weight * inner - (weight * lengths) ** 2 / 2) / self.deviation**2


def law_of(sent: Sent) -> ConditionalLaw:
    """Return the law of the sent gradient. Raises UserError if the noise's density needs more than inner products."""
    noise, texts = sent.noise, sent.texts
    if isinstance(noise, GaussianNoise):
        return ConditionalLaw(texts, noise.sigma * noise.clip, clip=noise.clip)
    if isinstance(noise, ScaledNoise):
        return ConditionalLaw(texts, noise.sigma or HAIR, gamma=noise.gamma)
    if isinstance(noise, NoNoise):
        return ConditionalLaw(texts, HAIR * (noise.clip or 1.0), clip=noise.clip)
    if isinstance(noise, OnMean) and noise.law == "gaussian":
        return ConditionalLaw(texts, noise.scale * texts or HAIR)
    if isinstance(noise, DirectionalNoise):
        if texts == 1:
            return ConditionalLaw(1.0, kappa=noise.kappa, parts=noise.parts)
        if not noise.parts:
            cosine = mean_cosine(noise.kappa, sent.model.size)
            return ConditionalLaw(texts / cosine, math.sqrt(texts / (noise.kappa * cosine)), gamma=0.0, exact=False)
    raise UserError(
        f"the likelihood of {texts} texts under {type(noise).__name__} is not implemented; use batches of one text, or "
        "gaussian, scaled or directional noise on the whole gradient",
        "EPS-A033",
    )
