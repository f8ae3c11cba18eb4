"""Upper bounds on the losses of pairs of texts that are decoded from latents with Gaussian or Laplace noise.

With Gaussian noise of standard deviation sigma on every coordinate, all figures of two latents f, f' at L2 distance d
depend only on r = d / sigma. The error of guessing between them is Phi(-r / 2), and delta(level) is the exact profile
of Balle and Wang 2018, theorem 8 (`mechanisms/latents/shared/noise.py`); the pure loss is infinite. With Laplace noise
of scale b the pure loss is |f - f'|_1 / b, and `laplace.py` computes the other figures.

The text is decoded from the noisy latent alone, so the losses of the text are at most the losses of the latent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from epsilometer.auditing.exact_loss import laplace
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.losses import LEVELS, PairLosses, Request
from epsilometer.core.errors import LawError, UserError
from epsilometer.core.guarantees import at_budget
from epsilometer.core.latents import slices
from epsilometer.core.mechanism import HasLatentNoise, HasLatents, Mechanism
from epsilometer.mechanisms.latents.shared.noise import Gaussian, Laplace, gaussian_log_delta

Array = NDArray[np.float64]
_DELTA, _SHARE = 1e-3, 1e-2  # allowed error of delta under Laplace noise: absolute at LEVELS, relative at a claim


def applies(mechanism: Mechanism) -> bool:
    """Return True if a mechanism adds noise of a known law to latents."""
    return isinstance(mechanism, HasLatents) and isinstance(mechanism, HasLatentNoise)


def losses(request: Request) -> list[PairLosses]:
    """Return the losses of the noisy latents of every pair, one `PairLosses` per budget, from one encoder pass."""
    mechanism = cast(HasLatentNoise, request.mechanism)
    used, at = np.unique(request.pairs, return_inverse=True)
    encoded, pairs = mechanism.encode([request.texts[i] for i in used]), at.reshape(-1, 2)
    if len(wrong := np.flatnonzero(~np.isfinite(encoded).all(axis=1))):
        raise LawError(
            f"encode returns values that are not finite for input {used[wrong[0]]} (counted from 0); return finite "
            "numbers",
            "EPS-A087",
        )
    results = []
    for epsilon, claims in zip(request.epsilons, request.claims, strict=True):
        noise = mechanism.law(epsilon)
        if not isinstance(noise, (Gaussian, Laplace)):
            name = type(noise).__name__
            raise UserError(
                f"law must return a Gaussian or a Laplace of mechanisms.latents.shared.noise, got {name}; leave `law` "
                "out for other noise",
                "EPS-A088",
            )
        if not 0 < noise.scale < math.inf:
            raise LawError(
                f"the scale of law must be a finite number > 0, got {noise.scale}{at_budget(epsilon)}", "EPS-A089"
            )
        if isinstance(noise, Gaussian):
            distances = [np.linalg.norm(part, axis=1) for part in _differences(encoded, pairs)]
            results.append(gaussian(np.concatenate(distances) / noise.scale, claims))
        else:
            each = (np.abs(row) / noise.scale for part in _differences(encoded, pairs) for row in part)
            results.append(_laplace(each, claims, request.width))
    return results


def gaussian(distances: Array, claims: Array) -> PairLosses:
    """Return the losses under Gaussian noise in closed form, without rounding to a grid.

    distances: [n], in standard deviations; claims: the pairs' claimed losses [n] in nats.
    """
    log_error, delta = log_ndtr(-distances / 2), _profile(LEVELS, distances[:, None])
    at_claim = np.where(np.isfinite(claims), _profile(np.where(np.isfinite(claims), claims, 0.0), distances), 1.0)
    return PairLosses(
        log_error=Bracket(log_error, log_error),
        delta=Bracket(delta, delta),
        larger_delta=delta,
        pure=np.where(distances > 0, math.inf, 0.0),
        delta_at_claim=Bracket(at_claim, at_claim),
    )


def _profile(levels: Array, distances: Array) -> Array:
    """Return delta of Gaussian noise, elementwise; 0 for equal latents."""
    far = np.maximum(distances, 1e-9)  # smaller distances are rounding errors; raising them gives an upper bound
    log_delta = np.vectorize(gaussian_log_delta, otypes=[float])(levels, 1 / far)
    delta: Array = np.where(distances > 0, np.exp(log_delta), 0.0)
    return delta


def _laplace(pairs: Iterator[Array], claims: Array, width: float) -> PairLosses:
    """Return the losses under Laplace noise, which are equal in both directions.

    pairs: for each pair, the distances [d] of the coordinates, in units of the noise's scale.
    """
    log_error, delta, at_claim, pure = [], [], [], []
    for distances, claim in zip(pairs, claims.tolist(), strict=True):
        overlap = laplace.log_overlap(distances, width / 4)  # an error of the log overlap at most doubles in the loss
        log_error.append((overlap.low - math.log(2), overlap.high - math.log(2)))
        curve = laplace.deltas(distances, LEVELS, _DELTA)
        delta.append((curve.low, curve.high))
        bracket = laplace.delta(distances, claim, _SHARE) if math.isfinite(claim) else Bracket(1.0, 1.0)
        at_claim.append((bracket.low, bracket.high))
        pure.append(float(distances.sum()))
    both = Bracket(*np.stack(delta, axis=1))
    return PairLosses(
        log_error=Bracket(*np.array(log_error).T),
        delta=both,
        larger_delta=both.high,
        pure=np.array(pure),
        delta_at_claim=Bracket(*np.array(at_claim).T),
    )


def _differences(encoded: NDArray[np.float32], pairs: NDArray[np.integer]) -> Iterator[Array]:
    """Yield the differences f - f' of pairs [n, d], in parts that fit in memory."""
    for part in slices(len(pairs), encoded.shape[1]):
        first, second = (encoded[pairs[part, side]].astype(np.float64) for side in (0, 1))
        yield first - second
