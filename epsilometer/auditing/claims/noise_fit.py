"""A test that continuous noise has the density that its mechanism's claim needs. Losses are in nats.

Some mechanisms add noise to a vector of d dimensions and compute the output from the noisy vector. Their law cannot be
enumerated: P(y | x) is an integral over all points whose output is y. Suppose that the noise z has a density
proportional to e^(-epsilon ||z||). Then at any point the densities for two vectors x, x' have a ratio of at most
e^(epsilon ||x - x'||), and so have the probabilities of any output. So it is enough to test that the noise has that
density: the length and the direction of z must be independent,

    ||z|| ~ Gamma(d, 1 / epsilon),    z / ||z|| uniform on the sphere,

and ||x - x'|| must be the distance that the claim counts. Five Kolmogorov-Smirnov tests compare lengths and inner
products of directions with their exact laws. If t is the inner product of a uniform direction with another direction,
(t + 1) / 2 has the law Beta((d - 1) / 2, (d - 1) / 2). Noise of the claimed density has a p-value of at most alpha with
probability at most alpha.

A mechanism that draws directions from the von Mises-Fisher law is tested in the same way. The cosine of a draw and its
mean has the law of `core/von_mises_fisher.py`; the part of the draw orthogonal to the mean has a uniform direction that
is independent of the cosine. A claim must be at least the largest loss between draws with means u and u' and
concentrations kappa and kappa', which is |kappa u - kappa' u'| + |ln M(kappa) - ln M(kappa')|.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import pair_claims
from epsilometer.core.mechanism import Mechanism, MovesVectors, TurnsVectors
from epsilometer.core.randomness import Noise

DRAWS = 2000
_DISTANCE = 1e-6  # largest relative difference between the vectors' distance and the distance in the claim
_ANGLES = 20_001  # points in the table of an angle's distribution function
_FLAT = 1e-9  # an axis with less than this share of the largest variance is ignored as rounding error


def noise_p_value(mechanism: Mechanism, epsilon: float, texts: Sequence[str], seed: int = 0) -> float | None:
    """Return the p-value of a mechanism's noise under the claimed density: k times the smallest of k p-values.

    For added noise k is 5; for drawn directions k is 4, or 1 in two dimensions. texts: the mechanism's inputs, of one
    unit each; the draws cycle through them. Returns 0 if the claim counts a distance other than that of the vectors, or
    allows less than the largest loss of drawn directions. Returns None if the mechanism claims nothing, adds no noise
    to vectors, or has vectors of one dimension.
    """
    claim = mechanism.guarantee(epsilon)
    if claim is None:
        return None
    source = [texts[i % len(texts)] for i in range(DRAWS)]
    if isinstance(mechanism, TurnsVectors):
        return _of_directions(mechanism, epsilon, source, len(texts), seed=seed)
    if not isinstance(mechanism, MovesVectors):
        return None
    landed = mechanism.moved(source, epsilon, Noise.named(DRAWS, "noise fit", seed, epsilon))
    if landed is None or landed[0].shape[1] < 2:
        return None
    before, after = landed
    pairs = np.arange(min(len(texts), DRAWS) // 2 * 2).reshape(-1, 2)
    claims = pair_claims(mechanism, epsilon, source, pairs)
    apart = claim.epsilon * np.linalg.norm(before[pairs[:, 0]] - before[pairs[:, 1]], axis=1)
    if not np.allclose(claims, apart, rtol=_DISTANCE, atol=0):
        return 0.0
    return fit(before, after - before, claim.epsilon)


def fit(vectors: NDArray[np.float64], noise: NDArray[np.float64], epsilon: float) -> float:
    """Return the p-value of noise [n, d] on vectors [n, d], d > 1, for the density ~ e^(-epsilon ||z||)."""
    from scipy.stats import beta, gamma, kstest  # takes a second to load

    dimensions, half = noise.shape[1], len(noise) // 2
    length = np.linalg.norm(noise, axis=1)
    direction = noise / np.maximum(length, np.finfo(float).tiny)[:, None]
    variances, axes = np.linalg.eigh(np.cov(vectors, rowvar=False))
    least = min(np.searchsorted(variances, _FLAT * variances[-1]), dimensions - 1)
    along, across = direction @ axes[:, -1], direction @ axes[:, least]  # axes of largest and smallest variance
    pairs = np.einsum("ij,ij->i", direction[:half], direction[half : 2 * half])
    lengths = gamma(dimensions, scale=1 / epsilon)
    cosines = beta((dimensions - 1) / 2, (dimensions - 1) / 2, -1, 2)
    wide = np.abs(along) > cosines.ppf(0.75)  # half of uniform directions satisfy this
    samples = [(length, lengths), (length[wide], lengths), (along, cosines), (across, cosines), (pairs, cosines)]
    p_values = [float(kstest(sample, law.cdf).pvalue) if len(sample) else 0.0 for sample, law in samples]
    p_value = min(1.0, len(p_values) * min(p_values))
    return float(f"{p_value:.6g}")  # further digits depend on how many threads multiply the matrices


def _of_directions(mechanism: TurnsVectors, epsilon: float, source: Sequence[str], texts: int, *, seed: int) -> float:
    """Return the p-value of drawn directions; 0 if a claim is smaller than the largest loss between two draws."""
    from epsilometer.core.von_mises_fisher import log_moment

    directions = mechanism.directions(source, epsilon)
    rows = directions.rows.values
    units, kappas = directions.units[rows], directions.concentrations[rows]
    pairs = np.arange(min(texts, DRAWS) // 2 * 2).reshape(-1, 2)
    claims = pair_claims(mechanism, epsilon, source, pairs)  # type: ignore[arg-type]
    moments = {kappa: log_moment(kappa, units.shape[1]) for kappa in set(kappas.tolist())}
    constants = np.array([moments[kappa] for kappa in kappas.tolist()])
    turned = units * kappas[:, None]
    apart = np.linalg.norm(turned[pairs[:, 0]] - turned[pairs[:, 1]], axis=1)
    apart += np.abs(constants[pairs[:, 0]] - constants[pairs[:, 1]])
    if (claims < apart * (1 - _DISTANCE)).any():
        return 0.0
    return fit_directions(
        units, mechanism.turned(source, epsilon, Noise.named(DRAWS, "noise fit", seed, epsilon)), kappas
    )


def fit_directions(units: NDArray[np.float64], turns: NDArray[np.float64], kappas: NDArray[np.float64]) -> float:
    """Return the p-value of draws [n, d] around unit vectors [n, d] under the law with concentrations kappa [n]."""
    from scipy.stats import beta, kstest, uniform  # takes a second to load

    from epsilometer.core.von_mises_fisher import angle_range, log_angle_density

    dimension = units.shape[1]
    cosine = np.einsum("ij,ij->i", units, turns)
    across = turns - cosine[:, None] * units
    sine = np.linalg.norm(across, axis=1)
    place = np.empty(len(units))
    for kappa in np.unique(kappas):
        of_kappa = kappas == kappa
        low, high = angle_range(float(kappa), dimension)
        edges = np.linspace(low, high, _ANGLES)
        logs = log_angle_density((edges[1:] + edges[:-1]) / 2, float(kappa), dimension)
        below = np.append(0.0, np.cumsum(np.exp(logs - logs.max())))
        place[of_kappa] = np.interp(np.arctan2(sine, cosine)[of_kappa], edges, below / below[-1])
    samples = [(place, uniform())]
    if dimension > 2:
        variances, axes = np.linalg.eigh(np.cov(units, rowvar=False))
        least = min(np.searchsorted(variances, _FLAT * variances[-1]), dimension - 1)
        law = beta((dimension - 2) / 2, (dimension - 2) / 2, -1, 2)
        for axis in (axes[:, -1], axes[:, least]):
            seen = axis - (units @ axis)[:, None] * units  # the part of the axis orthogonal to each unit vector
            along = np.einsum("ij,ij->i", across, seen) / np.maximum(
                sine * np.linalg.norm(seen, axis=1), np.finfo(float).tiny
            )
            samples.append((along, law))
        wide = np.abs(samples[-1][0]) > law.ppf(0.75)  # half of uniform directions satisfy this
        samples.append((place[wide], uniform()))
    p_values = [float(kstest(sample, law.cdf).pvalue) if len(sample) else 0.0 for sample, law in samples]
    return float(f"{min(1.0, len(p_values) * min(p_values)):.6g}")
