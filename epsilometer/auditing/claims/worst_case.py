"""The exact check of a claim: is there an input pair and an output whose loss exceeds what is claimed? Losses in nats.

For inputs x, x' and an output y the loss is L = ln P(y | x) - ln P(y | x'), and the claim allows c(x, x'). A mechanism
with laws is enumerated, each input being a text of one unit, or of equally many with one law where a mechanism always
releases that many (units are drawn independently, so their losses add up): the least slack c - L over all pairs of
inputs and all outputs decides, to 1e-9. A mechanism without laws, and a claim with a delta, which no single output can
break, is sampled (`monte_carlo`): the loss is then a lower bound at confidence 1 - alpha over all that was tried, and
can refute the claim but never confirm it; where the mechanism is continuous noise on a vector, the noise itself is
compared with the density that the proof needs (`noise_fit`).

An audit sees an average adversary on real texts; this sees the worst pair, however rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.longer_texts import against_longer
from epsilometer.auditing.claims.monte_carlo import COVERS_NOTHING, covers_some, monte_carlo, refutable_epsilons
from epsilometer.auditing.claims.noise_fit import DRAWS, noise_p_value
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, VIOLATED, pair_claims, rounding
from epsilometer.core.errors import UserError
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasBound, HasInputs, HasLaws, Mechanism
from epsilometer.core.randomness import Noise

EXACT = 5000  # inputs up to which all pairs are enumerated
SAMPLED = 200  # inputs among which all pairs are enumerated beyond that
ENTRIES = 2e11  # input pairs times outputs that are enumerated: minutes
_BLOCK = 32  # inputs compared with all others at a time
_LISTS_NOTHING = (
    "the mechanism lists no inputs and outputs; give it `inputs` and `output_texts`, and `laws` for an exact check "
    "(docs/your-own-mechanism.md)"
)
_NEVER = -1e300  # stands for ln 0, so that differences stay numbers
_ALIKE = -1e300  # the excess of two inputs that are one to the mechanism: no witness while there is another pair


def check_claim(
    mechanism: Mechanism,
    epsilon: float,
    alpha: float = 0.01,
    seed: int = 0,
    inputs: int = EXACT,
    entries: float = ENTRIES,
    bounded: bool = True,
) -> Finding:
    """The strongest check that the mechanism allows; inputs: how many are enumerated, beyond that a sample of them.

    entries: how many losses of two inputs and an output are computed at most, about.
    bounded: whether a mechanism's own bound is computed (`HasBound`), which compares all of its inputs: minutes for a
    large vocabulary.
    """
    claim = mechanism.guarantee(epsilon)
    if claim is None:
        return Finding(epsilon, "none", NO_CLAIM)
    if not isinstance(mechanism, HasInputs):
        return Finding(epsilon, "not checked", NOT_CHECKED, _LISTS_NOTHING)
    texts = list(mechanism.inputs)
    if claim.delta or not isinstance(mechanism, HasLaws):
        return _sampled(mechanism, epsilon, texts, alpha, seed=seed)
    bound = mechanism.excess_bound(epsilon) if bounded and isinstance(mechanism, HasBound) else None
    outputs = mechanism.laws(texts[:1]).outputs
    if len(texts) <= max(inputs, SAMPLED) and len(texts) ** 2 * outputs <= entries:
        finding = exact(mechanism, epsilon, texts, bound=bound)
    else:
        some = min(SAMPLED, len(texts), max(2, int(math.sqrt(entries / outputs))))
        chosen = np.argsort(Noise.named(len(texts), "worst case", seed).uniforms()[:, 0])[:some]
        finding = exact(mechanism, epsilon, [texts[i] for i in np.sort(chosen)], "largest found", bound=bound)
    return against_longer(mechanism, finding) if finding.verdict == NOT_REFUTED else finding


def is_sampled(mechanism: Mechanism, epsilon: float) -> bool:
    """Whether `check_claim` draws, so that its verdict may be wrong with probability alpha."""
    claim = mechanism.guarantee(epsilon)
    by_law = isinstance(mechanism, HasLaws) and not (claim and claim.delta)
    return claim is not None and isinstance(mechanism, HasInputs) and not by_law


def extra_epsilons(mechanism: Mechanism, epsilon: float, seed: int = 0) -> list[float]:
    """Where a mechanism is sampled: privacy budgets small enough that draws can refute its claim; from one budget."""
    if not is_sampled(mechanism, epsilon) or not isinstance(mechanism, HasInputs):
        return []
    return refutable_epsilons(mechanism, epsilon, list(mechanism.inputs), seed=seed)


def _sampled(mechanism: Mechanism, epsilon: float, texts: Sequence[str], alpha: float, seed: int) -> Finding:
    finding = monte_carlo(mechanism, epsilon, texts, alpha=alpha, seed=seed)
    p = noise_p_value(mechanism, epsilon, texts, seed)
    if p is None:
        return finding
    if p > alpha:
        fits = finding.reason and f"the noise has the claimed density, as far as {DRAWS:,} draws show (p = {p:.2g})"
    else:
        fits = f"the noise does not have the density that the claim needs (p = {p:.2g})"
    reason = "; ".join(part for part in (finding.reason, fits) if part) or None
    return replace(finding, noise_p=p, reason=reason)


def exact(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], method: str = "exact", bound: float | None = None
) -> Finding:
    """The largest excess over all pairs of these texts, each of one unit (or n with one law), and all outputs."""
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs):
        raise TypeError("an exact check needs the mechanism's laws and inputs")
    laws = mechanism.laws(texts)
    own, units = one_law_each(laws)
    rows, place = np.unique(own, return_inverse=True)
    table = np.empty((len(rows), laws.outputs))
    for start in range(0, len(rows), laws.chunk()):
        part = rows[start : start + laws.chunk()]
        (table[start : start + len(part)],) = laws.log_probabilities(part, [epsilon])
    table = np.maximum(table, _NEVER, out=table)[place]
    best, largest, pair, covered = -math.inf, 0.0, (0, 0), 0
    for start in range(0, len(texts), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(texts)))
        rest = np.arange(start, len(texts))
        loss = units * cdist(table[start : start + _BLOCK], table[start:], "chebyshev")
        pairs = np.stack(np.meshgrid(rows, rest, indexing="ij"), axis=-1).reshape(-1, 2)
        largest = max(largest, float(loss.max()))
        claims = pair_claims(mechanism, epsilon, texts, pairs).reshape(loss.shape)
        covered += int(np.isfinite(claims[rows[:, None] < rest]).sum())
        excess = loss - claims - rounding(claims)
        excess[(claims == 0) & (loss <= rounding(claims))] = _ALIKE
        excess[rows[:, None] >= rest] = -math.inf
        if excess.max() > best:
            best = float(excess.max())
            row, column = np.unravel_index(excess.argmax(), excess.shape)
            pair = (int(rows[row]), int(rest[column]))
    if best == -math.inf:  # the claim covers no pair
        return Finding(epsilon, method, NOT_CHECKED, COVERS_NOTHING, inputs=len(texts), bound=bound)
    difference = table[pair[0]] - table[pair[1]]
    output = int(np.abs(difference).argmax())
    left, right = pair if difference[output] > 0 else pair[::-1]
    return Finding(
        epsilon,
        method,
        VIOLATED if best > 0 else NOT_REFUTED,
        covers_some(covered, math.comb(len(texts), 2)),
        claimed=float(pair_claims(mechanism, epsilon, texts, np.array([pair]))[0]),
        worst=_unbounded(float(units * abs(difference[output]))),
        witness=(texts[left], texts[right], " ".join([mechanism.output_texts[output]] * units)),
        inputs=len(texts),
        bound=bound,
        largest=_unbounded(largest),
    )


def one_law_each(laws: Laws) -> tuple[NDArray[np.integer], int]:
    """The law row of each text [n], and how many units have it; refuses texts that are not governed by one law."""
    units = int(laws.rows.lengths[0])
    own = laws.rows.values[:: max(1, units)]
    if not units or (laws.rows.lengths != units).any() or (laws.rows.values != np.repeat(own, units)).any():
        raise UserError("an exact check takes texts of one unit each, or of equally many that share a law")
    return own, units


def _unbounded(loss: float) -> float:
    return math.inf if loss > -_NEVER / 2 else loss
