"""The exact check of a claim: is there an input pair and an output whose loss exceeds what is claimed? Losses in nats.

For inputs x, x' and an output y the loss is L = ln P(y | x) - ln P(y | x'), and the claim allows c(x, x'). A mechanism
with laws is enumerated, each input being a text of one unit, or of equally many with one law where a mechanism always
releases that many (units are drawn independently, so their losses add up): the largest excess L - c over all pairs of
inputs and all outputs decides, to 1e-9. A mechanism without laws is sampled: the excess is then a lower bound at
confidence 1 - alpha over everything that was tried (Clopper-Pearson at each end, Bonferroni), and can refute the claim
but never confirm it.

An audit sees an average adversary on real texts; this sees the worst pair, however rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import beta

from epsilometer.claims import NO_CLAIM, NOT_REFUTED, VIOLATED, pair_claims
from epsilometer.errors import UserError
from epsilometer.mechanism import HasBound, HasInputs, HasLaws, Mechanism
from epsilometer.randomness import Noise

TOLERANCE = 1e-9  # nats
EXACT = 5000  # inputs up to which all pairs are enumerated
SAMPLED = 200  # inputs among which all pairs are enumerated beyond that
_ENTRIES = 2e11  # input pairs times outputs that are enumerated: minutes
_BLOCK = 128  # inputs compared with all others at a time
_NEVER = -1e300  # stands for ln 0, so that differences stay numbers


@runtime_checkable
class StandsFor(Protocol):
    """A mechanism that some of its settings make another one, whose worst case is then its own."""

    @property
    def same_as(self) -> Mechanism | None:
        """The mechanism of the same law and the same claim, None where there is none."""
        ...


@dataclass(frozen=True)
class Finding:
    """What was found about a claim at one privacy budget.

    method:   "exact" (all pairs of `inputs`, all outputs), "largest found" (all pairs of a sample of `inputs`, all
              outputs), "Monte Carlo" (a lower bound from `draws` draws for each of `inputs`), "not checked" (a
              mechanism that lists no inputs can only be audited) or "none" (no claim).
    verdict:  violated, not refuted, or no claim.
    worst:    the loss of the witness; infinite where an output is possible under one input only. claimed: what is
              claimed for its pair. Their difference is the largest excess. None where nothing is claimed.
    witness:  the inputs x, x' and the output y of the largest excess.
    bound:    where the structure of the law gives one: no pair of the whole vocabulary exceeds its claim by more.
    """

    epsilon: float
    method: str
    verdict: str
    claimed: float | None = None
    worst: float | None = None
    witness: tuple[str, str, str] | None = None
    inputs: int = 0
    draws: int | None = None
    bound: float | None = None

    @property
    def excess(self) -> float | None:
        """worst - claimed."""
        return None if self.worst is None or self.claimed is None else self.worst - self.claimed


def check_claim(mechanism: Mechanism, epsilon: float, alpha: float = 0.01, seed: int = 0) -> Finding:
    """The strongest check that the mechanism allows, over the inputs that it can enumerate."""
    if isinstance(mechanism, StandsFor) and mechanism.same_as is not None:
        return check_claim(mechanism.same_as, epsilon, alpha, seed)
    if mechanism.guarantee(epsilon) is None:
        return Finding(epsilon, "none", NO_CLAIM)
    if not isinstance(mechanism, HasInputs):
        return Finding(epsilon, "not checked", NOT_REFUTED)
    texts = list(mechanism.inputs)
    if not isinstance(mechanism, HasLaws):
        return monte_carlo(mechanism, epsilon, texts, alpha=alpha, seed=seed)
    bound = mechanism.excess_bound(epsilon) if isinstance(mechanism, HasBound) else None
    outputs = mechanism.laws(texts[:1]).outputs
    if len(texts) <= EXACT and len(texts) ** 2 * outputs <= _ENTRIES:
        return exact(mechanism, epsilon, texts, bound=bound)
    some = min(SAMPLED, len(texts), max(2, int(math.sqrt(_ENTRIES / outputs))))
    drawn = np.argsort(Noise.named(len(texts), "worst case", seed).uniforms()[:, 0])[:some]
    return exact(mechanism, epsilon, [texts[i] for i in np.sort(drawn)], "largest found", bound)


def exact(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], method: str = "exact", bound: float | None = None
) -> Finding:
    """The largest excess over all pairs of these texts, each of one unit (or n with one law), and all outputs."""
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs):
        raise TypeError("an exact check needs the mechanism's laws and inputs")
    laws = mechanism.laws(texts)
    units = int(laws.rows.lengths[0])
    own = laws.rows.values[:: max(1, units)]
    if not units or (laws.rows.lengths != units).any() or (laws.rows.values != np.repeat(own, units)).any():
        raise UserError("an exact check takes texts of one unit each, or of equally many that share a law")
    rows, place = np.unique(own, return_inverse=True)
    table = np.empty((len(rows), laws.outputs))
    for start in range(0, len(rows), laws.chunk()):
        part = rows[start : start + laws.chunk()]
        (table[start : start + len(part)],) = laws.log_probabilities(part, [epsilon])
    table = np.maximum(table, _NEVER)[place]
    best, pair = -math.inf, (0, 0)
    for start in range(0, len(texts), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(texts)))
        rest = np.arange(start, len(texts))
        loss = units * cdist(table[rows], table[rest], "chebyshev")
        pairs = np.stack(np.meshgrid(rows, rest, indexing="ij"), axis=-1).reshape(-1, 2)
        excess = loss - pair_claims(mechanism, epsilon, texts, pairs).reshape(loss.shape)
        excess[rows[:, None] >= rest] = -math.inf
        if excess.max() > best:
            best = float(excess.max())
            row, column = np.unravel_index(excess.argmax(), excess.shape)
            pair = (int(rows[row]), int(rest[column]))
    if best == -math.inf:  # the claim covers no pair
        return Finding(epsilon, method, NOT_REFUTED, inputs=len(texts), bound=bound)
    difference = table[pair[0]] - table[pair[1]]
    output = int(np.abs(difference).argmax())
    left, right = pair if difference[output] > 0 else pair[::-1]
    worst = float(units * abs(difference[output]))
    claimed = float(pair_claims(mechanism, epsilon, texts, np.array([pair]))[0])
    return Finding(
        epsilon,
        method,
        VIOLATED if best > TOLERANCE else NOT_REFUTED,
        claimed,
        math.inf if worst > -_NEVER / 2 else worst,
        (texts[left], texts[right], " ".join([mechanism.output_texts[output]] * units)),
        len(texts),
        bound=bound,
    )


def monte_carlo(
    mechanism: Mechanism,
    epsilon: float,
    texts: Sequence[str],
    inputs: int = 12,
    draws: int = 2000,
    alpha: float = 0.01,
    seed: int = 0,
) -> Finding:
    """A lower bound of the largest excess, from draws at a few inputs.

    Half of the draws choose, for each pair of inputs, the output whose loss looks largest; the other half bounds that
    loss from below. Each bound may fail with probability alpha over the number of bounds, so together with alpha.
    """
    order = np.argsort(Noise.named(len(texts), "monte carlo", seed).uniforms()[:, 0])
    chosen = [texts[i] for i in order[: max(2, inputs // 2)]]
    # Near pairs are where a claim that grows with the distance is tightest: half of the inputs are neighbours.
    for text in list(chosen):
        pairs = np.array([(0, i) for i in range(1, len(texts) + 1)])
        claims = pair_claims(mechanism, epsilon, [text, *texts], pairs)
        claims[[other in chosen for other in texts]] = math.inf
        if np.isfinite(claims).any() and len(chosen) < inputs:
            chosen.append(texts[int(claims.argmin())])
    source = [text for text in chosen for _ in range(draws)]
    made = mechanism.rewrite(source, epsilon, Noise.named(len(source), "monte carlo", seed, epsilon)).texts
    outputs, number = np.unique(np.array(made, dtype=object).astype(str), return_inverse=True)
    number = number.reshape(len(chosen), 2, -1)
    counts = np.array([[np.bincount(half, minlength=len(outputs)) for half in row] for row in number])
    pairs = np.array([(i, j) for i in range(len(chosen)) for j in range(len(chosen)) if i != j])
    claims = pair_claims(mechanism, epsilon, chosen, np.sort(pairs, axis=1))
    pairs, claims = pairs[np.isfinite(claims)], claims[np.isfinite(claims)]
    if not len(pairs):
        return Finding(epsilon, "Monte Carlo", NOT_REFUTED, inputs=len(chosen), draws=draws)
    first = np.log(counts[:, 0] + 0.5)
    output = np.array([(first[i] - first[j]).argmax() for i, j in pairs])
    error = alpha / (2 * len(pairs))
    low = _lower(counts[pairs[:, 0], 1, output], draws // 2, error)
    high = 1 - _lower(draws // 2 - counts[pairs[:, 1], 1, output], draws // 2, error)
    with np.errstate(divide="ignore"):
        loss = np.log(low) - np.log(high)
    best = int((loss - claims).argmax())
    left, right = pairs[best]
    verdict = VIOLATED if loss[best] > claims[best] else NOT_REFUTED
    witness = (chosen[left], chosen[right], str(outputs[output[best]]))
    return Finding(epsilon, "Monte Carlo", verdict, float(claims[best]), float(loss[best]), witness, len(chosen), draws)


def _lower(successes: NDArray[np.integer], trials: int, error: float) -> NDArray[np.float64]:
    """The one-sided lower Clopper-Pearson limit."""
    limit = beta.ppf(error, successes, trials - successes + 1)
    return np.where(successes == 0, 0.0, limit)
