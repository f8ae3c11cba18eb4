"""Upper bounds for any attack on a noisy gradient: information, exact matches, and guesses between two texts.

All bounds are for one release of one text's gradient, clipped or scaled to length at most 1 (`accounting.releases`).
They hold for any distribution of texts and any knowledge of the other texts in the batch. For a text x, v_x is its
clipped or scaled gradient and P_x the law of its release. W is the cosine of a von Mises-Fisher draw to its mean
direction; U is the cosine of a uniform direction to this mean.

**Information** (nats). For any distribution Q of outputs, I(X; Y) <= E_x KL(P_x || Q). With Q the noise about the
origin, KL is |v_x|^2 / 2 sigma^2 <= 1 / (2 sigma^2). With Q uniform on the sphere, KL is kappa E W - ln E e^(kappa U)
for each part. If identifying a text takes more nats, its gradient identifies the text only by luck.

**Exact matches** (Hayes, Mahloujifar and Balle, NeurIPS 2023). Let p0 be the probability that the best guess without
the gradient is right. An adversary names x on a set of outputs S_x. These sets are disjoint, so their probabilities
under Q sum to at most 1. Let f(t) be the largest P_x(S) over sets S with Q(S) = t. The function f is the same for all
x, and concave, so

    success = sum_x p(x) P_x(S_x) <= sum_x p(x) f(Q(S_x)) <= f(sum_x p(x) Q(S_x)) <= f(p0).

By Neyman and Pearson, the best S is a half-space or a cap. For Gaussian noise, f(p0) = Phi(Phi^-1(p0) + 1 / sigma). For
one von Mises-Fisher draw, f(p0) = P(W > c), where P(U > c) = p0.

**Two texts.** For Gaussian noise, the likelier text is the source with probability Phi(distance / 2 sigma), where
distance is the distance between the two clipped gradients. For a von Mises-Fisher draw y, let u and u' be the
directions of the two gradients in R^d, u that of the source. Then y = W u + sqrt(1 - W^2) q, with q uniform on the unit
vectors orthogonal to u. Let e be the unit vector along u - u', a = <e, u> = |u - u'| / 2, and r the cosine of a
uniform direction of R^(d-1). The source is the likelier text if <e, y> > 0, with probability

    P(<e, y> > 0) = P(r < W a / sqrt((1 - W^2)(1 - a^2))).

This is one integral over W, because r^2 is a Beta(1/2, (d-2)/2) variable.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtr, ndtri

from epsilometer.accounting.releases import Gaussian, Release, VonMisesFisher
from epsilometer.core import von_mises_fisher
from epsilometer.core.errors import UserError

_GRID = 257  # distances at which success rates are integrated; their probits are interpolated linearly
_SURE = 1 - 2.0**-53  # largest success rate whose probit is finite


def information(release: Release) -> float:
    """Return the upper bound on the information about a text in one release, in nats."""
    if isinstance(release, Gaussian):
        return 1 / (2 * release.sigma**2)
    return sum(von_mises_fisher.information(release.kappa, dimension) for dimension in release.dimensions)


def exact_match(release: Release, blind: float) -> float:
    """Return the upper bound on the probability that an adversary identifies the text.

    blind: the probability that the best guess without the gradient is right.
    Raises UserError if blind is outside (0, 1], and for a draw per part, for which no bound is implemented.
    """
    if not 0 < blind <= 1:
        raise UserError(f"the success rate of a blind guess must be in (0, 1], got {blind}", "EPS-A052")
    if blind == 1:
        return 1.0
    if isinstance(release, Gaussian):
        return float(ndtr(ndtri(blind) + 1 / release.sigma))
    dimension = _whole(release)
    return max(blind, _within(_cap(blind, dimension), release.kappa, dimension))


def pair_success(release: Release, distances: ArrayLike) -> NDArray[np.float64]:
    """Return the best adversary's success rate [...] between two texts.

    distances: [...], the distances of their gradients; for directional noise, of their directions, at most 2.
    Raises UserError if each part has its own draw.
    """
    rows = np.asarray(distances, np.float64)
    if isinstance(release, Gaussian):
        halves: NDArray[np.float64] = ndtr(rows / (2 * release.sigma))
        return halves
    dimension = _whole(release)
    grid = np.linspace(0, 1, _GRID)  # values of a
    cosines, weights = von_mises_fisher.quadrature(release.kappa, dimension)
    sine = np.sqrt((1 - cosines) * (1 + cosines))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.multiply.outer(grid / np.sqrt((1 - grid) * (1 + grid)), cosines / sine)
    reach = np.clip(np.nan_to_num(ratio, nan=0.0), -1, 1)
    below = 0.5 + 0.5 * np.sign(reach) * betainc(0.5, (dimension - 2) / 2, reach**2)
    probits = ndtri(np.clip(below @ weights, 0.5, _SURE))
    between: NDArray[np.float64] = ndtr(np.interp(np.clip(rows / 2, 0, 1), grid, probits))
    return between


def _whole(release: VonMisesFisher) -> int:
    if release.parts > 1:
        raise UserError(
            "the bound is known for one draw about the whole gradient, not for draws by parts; set parts: false",
            "EPS-A053",
        )
    return release.dimensions[0]


def _cap(probability: float, dimension: int) -> float:
    """Return the angle around a point of the sphere within which a uniform direction lies with this probability."""
    angle = math.asin(math.sqrt(betaincinv((dimension - 1) / 2, 0.5, 2 * min(probability, 1 - probability))))
    return angle if probability <= 0.5 else math.pi - angle


def _within(angle: float, kappa: float, dimension: int) -> float:
    """Return P(a draw lies within an angle of its mean), by quadrature of the angle's density."""
    low, high = von_mises_fisher.angle_range(kappa, dimension)

    def mass(start: float, stop: float) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(400)
        half = (stop - start) / 2
        logs = von_mises_fisher.log_angle_density(start + half * (nodes + 1), kappa, dimension)
        return float(half * weights @ np.exp(logs))

    last = min(max(angle, low), high)
    within, beyond = mass(low, last) + (mass(0.0, min(angle, low)) if low else 0.0), mass(last, high)
    return min(1.0, within / (within + beyond))
