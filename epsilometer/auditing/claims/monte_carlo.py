"""A lower bound of a mechanism's largest excess over its claim, from draws. Losses are in nats.

A claim of c with delta says P(y | x) <= e^c P(y | x') + delta for every output y. n draws at each of two inputs prove
no loss above ln((a - delta) / (1 - a)) with a = error^(1/n), the Clopper-Pearson limit when every draw is right: 5 nats
from a thousand draws. A larger claim cannot be refuted, whatever the mechanism does. It is not testable, and is taken
out of the correction for multiple tests before any draw is made (Tarone 1990, "A modified Bonferroni method for
discrete data"). The same code can be tested at a smaller epsilon, where it claims less (`refutable_epsilons`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED, pair_claims
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise

METHOD = "Monte Carlo"
COVERS_NOTHING = (
    "the claim covers no pair of the inputs; give the mechanism a method `distance(texts, pairs, epsilon)` that is "
    "finite where it does"
)
_TARGETS = (1.0, 3.0)  # nats that the largest claim among the inputs should come to


def monte_carlo(
    mechanism: Mechanism,
    epsilon: float,
    texts: Sequence[str],
    inputs: int = 12,
    draws: int = 2000,
    alpha: float = 0.01,
    seed: int = 0,
) -> Finding:
    """The largest excess that draws at a few inputs prove.

    Half of the draws choose, for each pair of inputs, the output whose loss looks largest; the other half bounds that
    loss from below. Each bound may fail with probability alpha over the number of bounds, so together with alpha.
    """
    guarantee = mechanism.guarantee(epsilon)
    delta = guarantee.delta if guarantee else 0.0
    chosen = _chosen(mechanism, epsilon, texts, inputs, seed=seed)
    pairs = np.array([(i, j) for i in range(len(chosen)) for j in range(len(chosen)) if i != j])
    claims = pair_claims(mechanism, epsilon, chosen, np.sort(pairs, axis=1))
    pairs, claims = pairs[np.isfinite(claims)], claims[np.isfinite(claims)]
    if not len(pairs):
        return Finding(epsilon, METHOD, NOT_CHECKED, COVERS_NOTHING, inputs=len(chosen))
    tests, ceiling = _testable(claims, draws // 2, alpha, delta)
    if not tests:
        reason = (
            f"{draws:,} draws for each of {len(chosen)} inputs could refute claims up to {ceiling:.2f} nats, and the "
            f"smallest between them is {claims.min():.2f}; a smaller epsilon tests the same code"
        )
        return Finding(epsilon, METHOD, NOT_TESTABLE, reason, inputs=len(chosen), testable=ceiling)
    pairs, claims = pairs[claims < ceiling], claims[claims < ceiling]
    source = [text for text in chosen for _ in range(draws)]
    rewrites = mechanism.rewrite(source, epsilon, Noise.named(len(source), "monte carlo", seed, epsilon)).texts
    outputs, number = np.unique(np.array(rewrites, dtype=object).astype(str), return_inverse=True)
    number = number.reshape(len(chosen), 2, -1)
    counts = np.array([[np.bincount(half, minlength=len(outputs)) for half in row] for row in number])
    first = np.log(counts[:, 0] + 0.5)
    output = np.array([(first[i] - first[j]).argmax() for i, j in pairs])
    error = alpha / (2 * tests)
    low = _lower(counts[pairs[:, 0], 1, output], draws // 2, error)
    high = 1 - _lower(draws // 2 - counts[pairs[:, 1], 1, output], draws // 2, error)
    with np.errstate(divide="ignore"):
        loss = np.log(np.maximum(low - delta, 0)) - np.log(high)
    loss = np.maximum(loss, 0)  # some output of a pair has a loss of 0 or more
    best = int((loss - claims).argmax())
    left, right = pairs[best]
    return Finding(
        epsilon,
        METHOD,
        VIOLATED if loss[best] > claims[best] else NOT_REFUTED,
        claimed=float(claims[best]),
        worst=float(loss[best]),
        witness=(chosen[left], chosen[right], str(outputs[output[best]])),
        inputs=len(chosen),
        draws=draws,
        testable=ceiling,
        largest=float(loss.max()),
    )


def refutable_epsilons(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], inputs: int = 12, seed: int = 0
) -> list[float]:
    """Privacy budgets at which the claims between the inputs that are drawn from reach up to 1 and 3 nats.

    From the claims at `epsilon`, as if they grew in proportion to it; none where the claim covers no pair.
    """
    chosen = _chosen(mechanism, epsilon, texts, inputs, seed=seed)
    pairs = np.array([(i, j) for j in range(len(chosen)) for i in range(j)])
    claims = pair_claims(mechanism, epsilon, chosen, pairs)
    largest = claims[np.isfinite(claims)].max(initial=0)
    return [float(f"{epsilon * target / largest:.2g}") for target in _TARGETS] if largest else []


def _chosen(mechanism: Mechanism, epsilon: float, texts: Sequence[str], inputs: int, seed: int) -> list[str]:
    """The inputs that are drawn from: half at random, half their nearest neighbours.

    A claim that grows with the distance is tightest between near inputs.
    """
    order = np.argsort(Noise.named(len(texts), "monte carlo", seed).uniforms()[:, 0])
    chosen = [texts[i] for i in order[: max(2, inputs // 2)]]
    for text in list(chosen):
        pairs = np.array([(0, i) for i in range(1, len(texts) + 1)])
        claims = pair_claims(mechanism, epsilon, [text, *texts], pairs)
        claims[[other in chosen for other in texts]] = math.inf
        if np.isfinite(claims).any() and len(chosen) < inputs:
            chosen.append(texts[int(claims.argmin())])
    return chosen


def _testable(claims: NDArray[np.float64], draws: int, alpha: float, delta: float) -> tuple[int, float]:
    """How many bounds are looked at, and the largest loss that each could prove: Tarone's K, where any is testable."""
    for count in range(1, len(claims) + 1):
        ceiling = _ceiling(draws, alpha / (2 * count), delta)
        below = int((claims < ceiling).sum())
        if below <= count:
            return below and count, ceiling
    raise AssertionError("as many tests as claims are always enough")


def _ceiling(draws: int, error: float, delta: float) -> float:
    """ln((a - delta) / (1 - a)): what as many draws prove when each is right at one input and none at the other."""
    never = -math.expm1(math.log(error) / draws)  # 1 - a
    return math.log(1 - never - delta) - math.log(never) if 1 - never > delta else -math.inf


def _lower(successes: NDArray[np.integer], trials: int, error: float) -> NDArray[np.float64]:
    """The one-sided lower Clopper-Pearson limit."""
    from scipy.stats import beta  # takes a second to load

    limit = beta.ppf(error, successes, trials - successes + 1)
    return np.where(successes == 0, 0.0, limit)
