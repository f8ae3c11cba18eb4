"""The exact check of a claim with a delta, between inputs of one unit. Losses are in nats.

A claim of c with delta says P(S | x) <= e^c P(S | x') + delta for every set S of outputs. The set of all outputs y with
P(y | x) > e^c P(y | x') has the largest difference of both sides, so that

    sum over y of max(0, P(y | x) - e^c P(y | x')) <= delta

in both orders of a pair decides. The least c at which it holds is the loss of the pair at this delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED, pair_claims, rounding
from epsilometer.core.mechanism import HasInputs, Mechanism

_CACHE = 1 << 17  # probabilities compared at a time, so that they stay in the processor's cache
_LARGE = 700.0  # nats: larger exponents overflow
_ROUNDING = 1e-9  # of a delta


def with_delta(
    mechanism: Mechanism, finding: Finding, texts: Sequence[str], laws: NDArray[np.float64], delta: float
) -> Finding:
    """The finding of these texts once their claim's delta is taken into account.

    finding: of the claim without its delta, which it breaks; laws: log-laws [texts, outputs].
    """
    probable, epsilon = np.exp(laws), finding.epsilon
    most, pair = -math.inf, (0, 0)
    step = max(1, _CACHE // laws.shape[1])
    for here in range(len(texts)):
        for start in range(here + 1, len(texts), step):
            others = np.arange(start, min(start + step, len(texts)))
            pairs = np.stack([np.full(len(others), here), others], axis=1)
            claims = pair_claims(mechanism, epsilon, texts, pairs)
            factor = np.exp(np.minimum(claims + rounding(claims), _LARGE))[:, None]
            for ordered, left, right in (
                (pairs, probable[here], probable[others]),
                (pairs[:, ::-1], probable[others], probable[here]),
            ):
                beyond = np.maximum(left - factor * right, 0.0).sum(axis=1)
                beyond[np.isinf(claims)] = -math.inf
                if len(beyond) and beyond.max() > most:
                    most = float(beyond.max())
                    pair = tuple(ordered[beyond.argmax()].tolist())
    claimed = float(pair_claims(mechanism, epsilon, texts, np.sort([pair]))[0])
    left, right = probable[list(pair)]
    output = int((left - math.exp(min(claimed, _LARGE)) * right).argmax())
    assert isinstance(mechanism, HasInputs)
    return replace(
        finding,
        verdict=VIOLATED if most > delta * (1 + _ROUNDING) else NOT_REFUTED,
        claimed=claimed,
        worst=loss_at(left, right, delta),
        witness=(texts[pair[0]], texts[pair[1]], mechanism.output_texts[output]),
    )


def loss_at(left: NDArray[np.float64], right: NDArray[np.float64], delta: float) -> float:
    """The least c >= 0 with P(S) <= e^c P'(S) + delta for every set S; infinite where there is none.

    left, right: P and P' [outputs]. The sets that decide hold the outputs of the largest ratios.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(left > 0, left / right, 0.0), kind="stable")
        here, there = left[order].cumsum(), right[order].cumsum()
        losses = np.log(np.maximum(here - delta, 0.0)) - np.log(there)
    return max(0.0, float(np.where(here > delta, losses, 0.0).max()))
