"""Identification of the source among k texts by the optimal adversary, from the noisy gradient of one text.

A client sends the noisy gradient y of one text. (In a batch of several texts, the adversary knows the other texts and
subtracts their gradients.) The adversary knows k candidates, which include the source and all have its label. It
computes the candidates' gradients with the shared model, and chooses the candidate of largest likelihood given y. If
all candidates are equally likely, no adversary is right more often (Neyman and Pearson).

Let v_x be the clipped or scaled gradient of candidate x, t the source, z standard normal in R^d, s the standard
deviation of Gaussian noise, and W the random cosine of a von Mises-Fisher draw of concentration kappa. Then

    Gaussian:         y = v_t + s z,                        score_x = (<v_x, y> - |v_x|^2 / 2) / s^2;
    von Mises-Fisher: y = W u_t + sqrt(1 - W^2) q,          score_x = kappa <u_x, y>,   u_x = v_x / |v_x|,

with q = (z - <z, u_t> u_t) / |z - <z, u_t> u_t|. Each score depends on z only through two quantities. The products p_x
= <z, u_x> are jointly normal, with the candidates' cosines as covariances. The part of |z|^2 outside the candidates'
span is chi-squared. So a trial can be sampled from the Gram matrix alone, with exactly the law of noise on all d
numbers of a gradient. A trial takes about k random numbers; for k > 32, it takes one per dimension of the pool's span.
If each part of a gradient has its own draw, the parts' scores are added.

A score is the log likelihood up to a term that is equal for all candidates. If a candidate's gradient is zero, its draw
is uniform and its score is ln M(kappa). M(kappa) is the mean of e^(kappa <u, y>) over uniform y: the normaliser that
the other scores omit.

For k = 2, `results.reconstruction_bounds.pair_success` computes the true success rate.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.von_mises_fisher import log_moment
from epsilometer.studies.training.runs.directional import cosines as drawn_cosines
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise, TrainingNoise
from epsilometer.studies.training.runs.sent import OnMean

Array = NDArray[np.float64]
BLOCK = 2048  # trials sampled at a time; another number would change the trials' random numbers

_FEW = 32  # maximum number of candidates for which each trial has its own Cholesky factor
_RIDGE = 1e-10  # added to the diagonal of cosines, so that even equal candidates have a Cholesky factor
_SAME = 1e-9  # gradients at a smaller relative squared distance count as equal, because float32 rounds


@dataclass(frozen=True)
class GradientPool:
    """Lengths and angles of n gradients.

    lengths: [n].
    cosines: [n, n].
    basis:   [n, r], the coordinates of the unit gradients in their span.
    size:    d, the dimension of the gradients.
    """

    lengths: Array
    cosines: Array
    basis: Array
    size: int

    @classmethod
    def of(cls, gram: Array, size: int) -> GradientPool:
        """Return the pool of gradients with these inner products.

        gram: [n, n], the inner products; rounding may have made them slightly indefinite. size: the dimension d.
        Raises UserError if an inner product is not finite.
        """
        if not np.isfinite(gram).all():
            raise UserError("the gradient of a text is not finite; check the model", "EPS-A019")
        lengths = np.sqrt(gram.diagonal())
        over = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        values, vectors = np.linalg.eigh(gram * np.outer(over, over))
        keeps = values > 1e-9 * values[-1]
        basis = vectors[:, keeps] * np.sqrt(values[keeps])
        basis *= np.divide(1.0, rows := np.linalg.norm(basis, axis=1), out=np.zeros_like(rows), where=rows > 0)[:, None]
        return cls(lengths, basis @ basis.T, basis, size)


@component
class Candidates:
    """The optimal adversary among k texts.

    sizes:  the sizes k of candidate sets.
    trials: the number of trials of each size.
    pool:   the number of texts, all of one label, from which candidates are sampled.
    """

    sizes: Annotated[tuple[Annotated[int, Field(ge=2, le=32767)], ...], Field(min_length=1)] = (2, 16, 1024)
    trials: Annotated[int, Field(ge=1)] = 100_000
    pool: Annotated[int, Field(ge=2)] = 1024

    def log_likelihoods(
        self,
        pools: Sequence[GradientPool],
        candidates: NDArray[np.integer],
        target: NDArray[np.integer],
        noises: Sequence[TrainingNoise],
        generator: np.random.Generator,
    ) -> Iterator[Array]:
        """Yield, for each noise, the log likelihoods [n, k] of n sent gradients under each of k candidates.

        A term that is equal for all candidates is left out. All noises share their normal numbers, because sampling
        these takes most of the time.

        pools:      one pool for the whole gradients, or one per part if each part has its own draw.
        candidates: [n, k], indices of texts in the pool.
        target:     [n], the column of the source in `candidates`.
        Raises UserError if a noise's likelihood needs more than inner products.
        """
        projections = [_projections(pool, candidates, generator) for pool in pools]
        for noise in noises:
            own = copy.deepcopy(generator)
            scores = [
                _scores(pool, candidates, target, noise, projected=projection, generator=own)
                for pool, projection in zip(pools, projections, strict=True)
            ]
            yield np.sum(scores, axis=0) if len(scores) > 1 else scores[0]


def _scores(
    pool: GradientPool,
    candidates: NDArray[np.integer],
    target: NDArray[np.integer],
    noise: TrainingNoise,
    *,
    projected: tuple[Array, Array, int],
    generator: np.random.Generator,
) -> Array:
    normal, square, rank = projected
    rows = np.arange(len(target))
    source = candidates[rows, target]
    every = _every_text(pool, candidates)
    cosine = pool.cosines[source] if every else pool.cosines[source[:, None], candidates]
    if not isinstance(noise, DirectionalNoise):
        lengths, deviation = noised(noise, pool.lengths)
        of, own = lengths[None] if every else lengths[candidates], lengths[source][:, None]
        if not deviation:
            same = of**2 + own**2 - 2 * of * own * cosine < _SAME * np.maximum(own**2, 1e-30)
            return np.where(same, 0.0, -np.inf)
        scores = cosine  # becomes of * (own * cosine + deviation * normal - of / 2) / deviation^2, in place
        scores *= own
        scores += deviation * normal
        scores -= of / 2
        scores *= of / deviation**2
        return scores
    if rank < pool.size:
        square = square + generator.chisquare(pool.size - rank, len(target))  # |z|^2
    w = drawn_cosines(noise.kappa, pool.size, len(target), generator)
    along = normal[rows, target]
    rest = np.maximum(square - along**2, 1e-12 * square)  # rounding may make the difference negative
    tangent = np.clip((normal - cosine * along[:, None]) / np.sqrt(rest)[:, None], -1, 1)
    product = w[:, None] * cosine + np.sqrt((1 - w) * (1 + w))[:, None] * tangent
    zero = pool.lengths[candidates] == 0
    if zero.any():  # the draw of a zero gradient is uniform, in sampling and in the likelihood
        uniform = zero[rows, target]
        product[uniform] = (normal / np.sqrt(square)[:, None])[uniform]
        return np.where(zero, log_moment(noise.kappa, pool.size), noise.kappa * product)
    return noise.kappa * product


def _every_text(pool: GradientPool, candidates: NDArray[np.integer]) -> bool:
    """Return True if the candidates of every trial are all texts of the pool, in order, stored as one shared row."""
    return candidates.strides[0] == 0 and np.array_equal(candidates[0], np.arange(len(pool.lengths)))


def noised(noise: TrainingNoise, lengths: Array) -> tuple[Array, float]:
    """Return the lengths [n] of gradients after clipping or scaling, and the noise's standard deviation per coordinate.

    Raises UserError if the noise is not Gaussian.
    """
    if isinstance(noise, GaussianNoise):
        return np.minimum(lengths, noise.clip), noise.sigma * noise.clip
    if isinstance(noise, ScaledNoise):
        whole = lengths + noise.gamma
        return np.divide(lengths, whole, out=np.zeros_like(lengths), where=whole > 0), noise.sigma
    if isinstance(noise, NoNoise):
        return lengths if noise.clip is None else np.minimum(lengths, noise.clip), 0.0
    if isinstance(noise, OnMean) and noise.law == "gaussian":
        return lengths, noise.scale
    raise UserError(
        f"the likelihood under {type(noise).__name__} does not depend on inner products of gradients alone; leave "
        "`candidates` out, or use gaussian, scaled or directional noise",
        "EPS-A020",
    )


def _projections(
    pool: GradientPool, candidates: NDArray[np.integer], generator: np.random.Generator
) -> tuple[Array, Array, int]:
    """Sample a standard normal vector per trial. Only the quantities on which scores depend are computed.

    Returns three results: the vectors' products [n, k] with the candidates' unit gradients, the squared lengths [n] of
    the vectors' parts in a subspace that contains these gradients, and the dimension of the subspace.
    """
    count, k = candidates.shape
    if k > min(_FEW, pool.size):
        draw = generator.standard_normal((count, pool.basis.shape[1]))
        normal = draw @ pool.basis.T
        if not _every_text(pool, candidates):
            normal = np.take_along_axis(normal, candidates, 1)
        return normal, np.einsum("ij,ij->i", draw, draw), pool.basis.shape[1]
    ridge = np.where(pool.lengths[candidates] > 0, _RIDGE, 1.0)  # a gradient of zero has no direction
    within = pool.cosines[candidates[:, :, None], candidates[:, None, :]] + np.eye(k) * ridge[:, None, :]
    draw = generator.standard_normal((count, k))
    factor = np.linalg.cholesky(within)
    return np.einsum("nij,nj->ni", factor, draw), (draw**2).sum(1), k
