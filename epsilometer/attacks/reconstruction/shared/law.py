"""The law of what was sent, as a function of the texts' gradients: differentiable, from inner products and lengths.

With Y the noised sum (the update times the batch), v_i the gradient of text i clipped or scaled as the noise does it,
and all terms that no text changes left out,

    Gaussian:          ln p = (<sum_i v_i, Y> - |sum_i v_i|^2 / 2) / s^2,   s the deviation of the noise on the sum;
    von Mises-Fisher:  ln p = kappa <v, Y>   for one text; by parts, the sum of the parts'.

For several texts, a text's own likelihood given the others is the first line with Y less the others' v. The average of
several von Mises-Fisher draws has no density that could be computed: it is taken for Gaussian with its own second
moments, E Y = A sum_i v_i and the variance L A / kappa of a tangent coordinate, which at these dimensions it hardly
differs from (`exact` is False). Without noise the deviation is that of a hair, so that likelihoods stay finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.training.inner_products import Products
from epsilometer.training.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise
from epsilometer.training.sent import OnMean, Sent

HAIR = 1e-3  # deviation where there is no noise: of clipped gradients a thousandth of the length
_NOTHING = 1e-12  # share of a gradient's squared length below which a part is rounding alone


@dataclass(frozen=True)
class Law:
    """The likelihood of one text given the others. kappa: of a draw about one text; else Gaussian with a deviation.

    clip: the longest that a gradient stays, or None; gamma: what is added to its length, or None where it is not
    scaled; factor: what Y is multiplied by. exact: whether this is the law, and not one with its second moments.
    """

    factor: float
    deviation: float = 0.0
    kappa: float = 0.0
    parts: bool = False
    clip: float | None = None
    gamma: float | None = None
    exact: bool = True

    def target(self, sent: Sent) -> list[Tensor]:
        """Y, the noised sum, as tensors of the model's shapes."""
        return sent.model.split(torch.from_numpy(sent.update).to(sent.model.device) * self.factor)

    def weight(self, lengths: Tensor) -> Tensor:
        """What gradients of these lengths [B] are multiplied by before noise."""
        if self.gamma is not None:
            return 1 / (lengths + self.gamma).clamp_min(1e-30)
        return torch.ones_like(lengths) if self.clip is None else (self.clip / lengths).clamp(max=1.0)

    def log_likelihood(self, products: Products) -> Tensor:
        """Returns [B], in nats, of texts whose gradients have these products with Y."""
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


def law_of(sent: Sent) -> Law:
    """Returns the law of what was sent. Raises UserError for noise whose density is no function of inner products."""
    noise, texts = sent.noise, sent.texts
    if isinstance(noise, GaussianNoise):
        return Law(texts, noise.sigma * noise.clip, clip=noise.clip)
    if isinstance(noise, ScaledNoise):
        return Law(texts, noise.sigma or HAIR, gamma=noise.gamma)
    if isinstance(noise, NoNoise):
        return Law(texts, HAIR * (noise.clip or 1.0), clip=noise.clip)
    if isinstance(noise, OnMean) and noise.law == "gaussian":
        return Law(texts, noise.scale * texts or HAIR)
    if isinstance(noise, DirectionalNoise):
        if texts == 1:
            return Law(1.0, kappa=noise.kappa, parts=noise.parts)
        if not noise.parts:
            cosine = mean_cosine(noise.kappa, sent.model.size)
            return Law(texts / cosine, math.sqrt(texts / (noise.kappa * cosine)), gamma=0.0, exact=False)
    raise UserError(
        f"the likelihood of {texts} texts under {type(noise).__name__} is not known here; take batches of one text, or "
        "gaussian, scaled or directional noise on the whole gradient"
    )
