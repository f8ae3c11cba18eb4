"""A lower bound of a mechanism's largest excess over its claim, from draws. Losses are in nats.

A claim of c with delta says P(S | x) <= e^c P(S | x') + delta for every set S of outputs. A test with n draws at each
of two inputs proves no loss above ln((a - delta) / (1 - a)). Here a = error^(1/n) is the Clopper-Pearson limit for an
event that occurs in every draw. With a thousand draws this loss is 5 nats, so these draws cannot refute a larger claim
of any mechanism. A larger claim is not testable, and the correction for multiple tests leaves it out before any draw is
made (Tarone 1990, "A modified Bonferroni method for discrete data"). The same code can be tested at a smaller epsilon,
where the claim is smaller (`refutable_epsilons`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.events import Events
from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED, pair_claims
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise

METHOD = "Monte Carlo"
DRAWN = 12  # number of inputs whose outputs are sampled
COVERS_NOTHING = (
    "the claim covers no pair of the inputs; give the mechanism a method `distance(texts, pairs, epsilon)` that is "
    "finite for covered pairs"
)
_COVERS_SOME = "the claim does not cover {without:,} of the {total:,} pairs of inputs compared"
_RARE = (
    "{draws:,} draws for each input could refute claims of at most {testable:.2f} nats, and the smallest claim is "
    "{claims:.2f}: no output or answer of a classifier was frequent enough to refute a larger claim"
)
_NEVER_TWICE = (
    "most outputs came only once, so the claim was tested by the words, beginnings and lengths that outputs share, "
    "and by a classifier; a leak of another form would go unseen"
)
_TARGETS = (1.0, 3.0)  # values, in nats, that the largest claim between inputs should have


def monte_carlo(
    mechanism: Mechanism,
    epsilon: float,
    texts: Sequence[str],
    inputs: int = DRAWN,
    draws: int = 2000,
    alpha: float = 0.01,
    seed: int = 0,
) -> Finding:
    """Return the largest excess that draws at a few inputs prove.

    Half of the draws choose, for each pair of inputs, the event whose loss looks largest (`events`). The other half
    bounds the loss of that event from below. Each bound is wrong with probability at most alpha divided by the number
    of bounds, so some bound is wrong with probability at most alpha. Consider two events at an input: its most frequent
    output, and the set of outputs assigned to it. The claim is testable if one of them would refute the claim by never
    occurring at the other input.
    """
    guarantee = mechanism.guarantee(epsilon)
    delta = guarantee.delta if guarantee else 0.0
    chosen = _chosen(mechanism, epsilon, texts, inputs, seed=seed)
    pairs = np.array([(i, j) for i in range(len(chosen)) for j in range(len(chosen)) if i != j])
    claims = pair_claims(mechanism, epsilon, chosen, np.sort(pairs, axis=1))
    covered = np.isfinite(claims)
    uncovered = covers_some(int(covered.sum()) // 2, len(pairs) // 2)
    pairs, claims = pairs[covered], claims[covered]
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
    finding = _by_events(
        mechanism, epsilon, chosen, pairs, claims=claims, draws=draws, error=alpha / (2 * tests), seed=seed
    )
    return replace(finding, reason="; ".join(filter(None, (finding.reason, uncovered))) or None)


def covers_some(covered: int, total: int) -> str | None:
    """Return a note on the number of pairs of inputs without a claim; None if every pair has one."""
    return None if covered == total else _COVERS_SOME.format(without=total - covered, total=total)


def _by_events(
    mechanism: Mechanism,
    epsilon: float,
    chosen: Sequence[str],
    pairs: NDArray[np.integer],
    *,
    claims: NDArray[np.float64],
    draws: int,
    error: float,
    seed: int,
) -> Finding:
    """Test the claims [n] for ordered pairs [n, 2] of the chosen inputs. error: the error of each limit of a rate."""
    claim = mechanism.guarantee(epsilon)
    delta = claim.delta if claim else 0.0
    source = [text for text in chosen for _ in range(draws)]
    rewrites = mechanism.rewrite(source, epsilon, Noise.named(len(source), "monte carlo", seed, epsilon)).texts
    outputs, number = np.unique(np.array(rewrites, dtype=object).astype(str), return_inverse=True)
    learn, choose, test = np.split(number.reshape(len(chosen), draws), [draws // 4, draws // 2], axis=1)
    events = Events(chosen, outputs.tolist(), (learn, choose), lower_limits(choose.shape[1], error), delta=delta)
    best = [events.best(i, j) for i, j in pairs]
    held = np.array([[event.holds[test[i]].sum() for i in pair] for pair, event in zip(pairs, best, strict=True)])
    often = np.array([round(events.frequency(i, j) * test.shape[1]) for i, j in pairs])
    lower = lower_limits(test.shape[1], error)
    loss = np.maximum(_proved(held[:, 0], held[:, 1], lower, delta), 0)  # a loss of 0 needs no proof
    testable = _proved(often, np.zeros_like(often), lower, delta)
    worst = int((loss - claims).argmax())
    finding = Finding(
        epsilon,
        METHOD,
        NOT_REFUTED,
        claimed=float(claims[worst]),
        worst=float(loss[worst]),
        witness=(chosen[pairs[worst, 0]], chosen[pairs[worst, 1]], best[worst].name),
        inputs=len(chosen),
        draws=draws,
        testable=float(testable.max()),
        largest=float(loss.max()),
    )
    if loss[worst] > claims[worst]:
        return replace(finding, verdict=VIOLATED)
    if (testable <= claims).all():
        reason = _RARE.format(draws=draws, testable=testable.max(), claims=claims.min())
        return replace(finding, verdict=NOT_TESTABLE, reason=reason)
    return finding if 2 * len(outputs) <= number.size else replace(finding, reason=_NEVER_TWICE)


def refutable_epsilons(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], inputs: int = 12, seed: int = 0
) -> list[float]:
    """Return privacy budgets at which the largest claim between the chosen inputs is about 1 and 3 nats.

    The budgets are extrapolated from the claims at `epsilon`, as if claims grew in proportion to epsilon. The list is
    empty if the claim covers no pair.
    """
    chosen = _chosen(mechanism, epsilon, texts, inputs, seed=seed)
    pairs = np.array([(i, j) for j in range(len(chosen)) for i in range(j)])
    claims = pair_claims(mechanism, epsilon, chosen, pairs)
    largest = claims[np.isfinite(claims)].max(initial=0)
    return [float(f"{epsilon * target / largest:.2g}") for target in _TARGETS] if largest else []


def _chosen(mechanism: Mechanism, epsilon: float, texts: Sequence[str], inputs: int, seed: int) -> list[str]:
    """Return the inputs whose outputs are sampled: one half are random, the other half are their nearest neighbours.

    A claim that grows with distance is smallest between near inputs.
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
    """Return the number of tested bounds (Tarone's K; 0 if no claim is testable), and the largest provable loss."""
    for count in range(1, len(claims) + 1):
        ceiling = _ceiling(draws, alpha / (2 * count), delta)
        below = int((claims < ceiling).sum())
        if below <= count:
            return below and count, ceiling
    raise AssertionError("as many tests as claims are always enough")


def _ceiling(draws: int, error: float, delta: float) -> float:
    """Return ln((a - delta) / (1 - a)), the loss proved by an event in all draws at one input and none at another."""
    never = -math.expm1(math.log(error) / draws)  # 1 - a
    return math.log(1 - never - delta) - math.log(never) if 1 - never > delta else -math.inf


def lower_limits(trials: int, error: float) -> NDArray[np.float64]:
    """Return [trials + 1]: the one-sided lower Clopper-Pearson limits of 0, ..., n successes in n trials."""
    from scipy.stats import beta  # takes a second to load

    successes = np.arange(1, trials + 1)
    return np.concatenate([[0.0], beta.ppf(error, successes, trials - successes + 1)])


def _proved(
    here: NDArray[np.integer], there: NDArray[np.integer], lower: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    """Return the loss proved by an event with these counts of draws at one input (here) and at the other (there)."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(lower[here] - delta, 0)) - np.log1p(-lower[::-1][there])
