"""The von Mises-Fisher draw: a random unit vector about a mean direction, and the average of one draw per example.

On the unit sphere of R^d, the density of a draw y about a unit vector mu is C_d(kappa) e^(kappa mu'y) (Mardia and Jupp
2000, section 9.3). Between two means, the privacy loss is kappa (mu - nu)'y <= kappa |mu - nu|, with equality for y
parallel to mu - nu. So no two means have a loss above 2 kappa (`accounting`).

**One draw** is y = W mu + sqrt(1 - W^2) q, with q uniform on the unit vectors orthogonal to mu. q is a Gaussian vector
minus its component along mu, divided by its length. This needs no rotation and no special case for a mean near an axis.
The cosine W is sampled by rejection (Wood 1994, "Simulation of the von Mises Fisher distribution"), rewritten without
cancellation for kappa from 1e-3 to 1e9 and d from 2 to 1e8. Let m = d - 1, s = sqrt(4 kappa^2 + m^2) and x = 2 kappa /
(m + s), which is nearly the most likely cosine. Let T be the first coordinate of a uniform direction of R^(m+1). Then

    W = (x + T) / (1 + x T)    is accepted with probability e^(m (z + ln(1 - z))),    z = x T / (1 + x T).

This is Wood's envelope: Wood's Beta variable is (1 - T) / 2, Wood's b is (1 - x) / (1 + x), and kappa (1 - x^2) = m x
turns Wood's bound into this bound. At large kappa, Wood's formulas fail in float32: b cancels to 0, or 1 - W takes only
a few values (`tests/support/broken/float32_cosines.py`). So all scalars here are float64.

**The average of L draws** is all that is released. So it is sampled directly, without the L draws. Let the unit means
u_i have the Gram matrix G. Draw i is w_i u_i + s_i (z_i - t_i u_i), where w_i is its cosine W, z_i is standard normal
in R^d, t_i = u_i'z_i, and s_i = sqrt(1 - w_i^2) / |z_i - t_i u_i|. Let M be the span of the means, r its dimension.

1. The coordinates of the u_i in an orthonormal basis of M are the rows of a Cholesky factor of G with pivots.
2. Within M, every z_i consists of r normal numbers e_i. Orthogonal to M, the length of z_i is the square root of a
   chi^2_(d-r) variable, and its direction is uniform and independent of everything else. So all t_i and s_i follow from
   L x r normal numbers and L lengths.
3. Orthogonal to M, the sum of the s_i z_i has a uniform direction. Its length is computed one draw at a time by the law
   of cosines: the cosine between two independent uniform directions of R^(d-r) has the law of T, with d - r dimensions.
4. Let n be a standard normal vector of R^d, and h its projection on M. The direction of n - h serves as the uniform
   direction in step 3, and h is reused for the e_i. Let c be the vector of length 1 with c_i proportional to
   sqrt(1 - w_i^2). Then sum_i c_i e_i is standard normal in R^r, like h. Every e_i is replaced with
   e_i + c_i (h - sum_j c_j e_j). After this, sum_i c_i e_i = h, and the e_i are still independent normals. With the
   length from step 3,

       sum = sum_i (w_i - s_i t_i) u_i + l n + (sum_i s_i e_i - l h),    l = length / |n - h|.

   The term in brackets lies in M and equals sum_i (s_i - l c_i) e_i. It is small, because every s_i is nearly l c_i. It
   is computed as a combination of the means. If means are nearly dependent, equal or opposite, the coefficients may be
   large, which does no harm to a small term.

This is exactly the law of the average of L separate draws (`average_of_draws`, the reference in tests). A sample costs
one normal vector, one product with it and one weighted sum; the rest works on L x L matrices. If d - r < L, the draws
are made one by one.

A mean of zero has no direction. Its draw is uniform, with w_i = 0 and u_i = 0 above; the privacy loss between it and
any other draw is at most 2 kappa. Gradients that are not finite count as zero.

The vector n and sums of gradients are float32. Their rounding moves a draw by 1e-7 of its noise and a mean by 1e-7 of
its length, which adds 1e-7 of the claimed loss. A mean nearer than 1e-5.5 to the span of other means is treated as part
of the span, which adds 3e-6 kappa to the loss of its example. docs/concepts/security-releases.md explains the effect on
a release.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from epsilometer.core.normals import normals
from epsilometer.core.von_mises_fisher import check_concentration
from epsilometer.studies.training.runs.gradients import ExampleGradients

Array = NDArray[np.float64]

_NUMBERS = 1 << 16  # random numbers sampled at a time, except that a draw is never divided
_DEPENDENT = 1e-11  # a mean at a smaller squared distance from the span of other means counts as in the span


def cosines(kappa: float, dimension: int, count: int, generator: np.random.Generator) -> Array:
    """Return independent cosines W [count] between a draw and its mean direction.

    Raises UserError for kappa <= 0 and fewer than two dimensions.
    """
    return _angles(kappa, dimension, count, generator)[0]


def average_of_draws(
    gradients: ExampleGradients, kappa: float, generator: np.random.Generator, over: float | None = None
) -> Array:
    """Return the sum [d] of one draw about each of L gradients, divided by `over` (default: L). Draws one by one."""
    check_concentration(kappa, gradients.size)
    total = np.zeros(gradients.size)
    rows, chosen = max(1, _NUMBERS // gradients.size), np.eye(gradients.count)
    for start in range(0, gradients.count, rows):
        means = np.array([gradients.weighted_sum(weights) for weights in chosen[start : start + rows]])
        total += _draws(means, kappa, generator).sum(axis=0)
    total /= _divisor(gradients, over)
    return total


def average(
    gradients: ExampleGradients, kappa: float, generator: np.random.Generator, over: float | None = None
) -> NDArray[np.floating]:
    """Return the sum [d] of one draw about each of L gradients, divided by `over` (default: L).

    The result has the law of `average_of_draws`, as the module's docstring explains. It is float64 if the draws are
    made one by one, or if the generator is the operating system's; otherwise it is float32. Without gradients, it is
    zero. Raises UserError for kappa <= 0 and for fewer than two dimensions.
    """
    check_concentration(kappa, gradients.size)
    if not gradients.count:
        return np.zeros(gradients.size, np.float32)
    norms = gradients.norms()
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    gram = gradients.gram() * np.outer(inverse, inverse)
    np.fill_diagonal(gram, norms > 0)  # exactly 1, so that rounding errors do not choose the first pivot
    rows, basis = _coordinates(gram)
    outside = gradients.size - rows.shape[1]
    if outside < gradients.count:
        return average_of_draws(gradients, kappa, generator, over)
    cosine, sine = _angles(kappa, gradients.size, gradients.count, generator)
    cosine, sine = np.where(norms > 0, cosine, 0.0), np.where(norms > 0, sine, 1.0)

    noise = normals(gradients.size, generator)
    lower = rows[basis]
    projected = solve_triangular(lower, (gradients.product(noise) * inverse)[basis], lower=True, check_finite=False)
    inside = generator.standard_normal(rows.shape)
    share = sine / _length(sine)
    inside += np.outer(share, projected - share @ inside)

    along = np.einsum("ij,ij->i", rows, inside)
    across = inside - along[:, None] * rows
    squares = generator.chisquare(outside, gradients.count)
    scale = sine / np.sqrt(np.einsum("ij,ij->i", across, across) + squares)
    length = _length_of_sum(scale * np.sqrt(squares), outside, generator)
    stretch = length / math.sqrt(max(_length(noise) ** 2 - projected @ projected, np.finfo(np.float64).tiny))

    weights = cosine - scale * along
    rest = scale @ inside - stretch * projected
    weights[basis] += solve_triangular(lower, rest, trans="T", lower=True, check_finite=False)
    over = _divisor(gradients, over)
    noise *= stretch / over
    noise += gradients.weighted_sum(weights * inverse / over)
    return noise


def _draws(means: NDArray[np.floating], kappa: float, generator: np.random.Generator) -> Array:
    """Return a draw [n, d] about the direction of each mean [n, d]; a uniform draw if a mean is zero or not finite."""
    draws = normals(means.size, generator).reshape(means.shape).astype(np.float64)
    units = means.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", units, units))
    pointed = (lengths > 0) & np.isfinite(lengths)
    units[~pointed] = 0
    units /= np.where(pointed, lengths, 1.0)[:, None]
    draws -= np.einsum("ij,ij->i", draws, units)[:, None] * units
    cosine, sine = _angles(kappa, means.shape[1], len(means), generator)
    draws *= (np.where(pointed, sine, 1.0) / np.sqrt(np.einsum("ij,ij->i", draws, draws)))[:, None]
    units *= cosine[:, None]
    draws += units
    return draws


def _angles(kappa: float, dimension: int, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return cosines W [count] and sines sqrt(1 - W^2) [count], both with a relative error of about 1e-15."""
    check_concentration(kappa, dimension)
    m = dimension - 1
    s = math.hypot(2 * kappa, m)
    x, rest = 2 * kappa / (m + s), (m + m * (m / (s + 2 * kappa))) / (m + s)  # rest: 1 - x
    cosine, sine = np.empty(count), np.empty(count)
    left = np.arange(count)
    while len(left):
        normal, square = generator.standard_normal(len(left)), generator.chisquare(m, len(left))
        whole = normal**2 + square
        t, sine_t = normal / np.sqrt(whole), np.sqrt(square / whole)
        away = np.where(t < 0, sine_t**2 / (1 - t), 1 + t)  # 1 + T
        bottom = rest + x * away  # 1 + x T
        z = x * t / bottom
        good = -generator.standard_exponential(len(left)) <= m * (z + np.log1p(-z))
        cosine[left[good]] = ((x + t) / bottom)[good]
        sine[left[good]] = (math.sqrt(rest * (1 + x)) * sine_t / bottom)[good]
        left = left[~good]
    return cosine, sine


def _coordinates(gram: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return coordinates [L, r] of unit vectors in a basis of their span, and the indices of r vectors that span it.

    gram: [L, L], with 1 on the diagonal, or 0 for a vector of zero. The coordinates [r, r] of the r vectors are lower
    triangular.
    """
    factor, pivots, rank, _ = dpstrf(gram, tol=_DEPENDENT, lower=1)
    order = pivots.astype(np.int64) - 1
    rows = np.empty((len(gram), rank))
    rows[order] = np.tril(factor)[:, :rank]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=gram.diagonal()[:, None] > 0), order[:rank]


def _length_of_sum(lengths: Array, dimension: int, generator: np.random.Generator) -> float:
    """Return the length of a sum of vectors with these lengths [L] and independent uniform directions."""
    if len(lengths) == 1:
        return float(lengths[0])
    normal = generator.standard_normal(len(lengths) - 1)
    meeting = normal / np.sqrt(normal**2 + generator.chisquare(dimension - 1, len(normal)))
    total = float(lengths[0])
    for length, cosine in zip(lengths[1:].tolist(), meeting.tolist(), strict=True):
        total = math.sqrt(max((total + length * cosine) ** 2 + length**2 * (1 - cosine**2), 0.0))
    return total


def _divisor(gradients: ExampleGradients, over: float | None) -> float:
    return float(gradients.count if over is None else over)


def _length(vector: NDArray[np.floating]) -> float:
    """Return the Euclidean length of a vector [d]. Squares are summed in float64."""
    return math.sqrt(np.einsum("i,i->", vector, vector, dtype=np.float64))
