"""The exact check of a claim: a search for inputs and an output whose loss exceeds the claim. Losses are in nats.

For inputs x, x' and an output y the loss is L = ln P(y | x) - ln P(y | x'), and the claim allows c(x, x').

If a mechanism has laws, all its outputs are enumerated for all its inputs, or for a sample if there are many inputs.
Each input is a text of one unit. If the mechanism releases n units for every text, each input is a text whose n units
all have the same law. Units are drawn independently, so their losses add up. A claim without a delta is violated if c -
L < 0, up to rounding (1e-9), for some pair of inputs and some output. For a claim with a delta, each output has the
difference P(y | x) - e^c P(y | x'). Such a claim is violated if the positive differences of some pair add up to more
than delta.

A mechanism is sampled (`monte_carlo`) if it has no laws, or if its claim has a delta and its inputs have several units.
The loss is then a lower bound at confidence 1 - alpha over all tests, so it can refute the claim but never confirm it.
If continuous noise is added to a vector, the noise itself is compared with the density that the claim's proof needs
(`noise_fit`).

The law describes the units. If the released text may reveal more of its source than the units do, a law within the
claim confirms nothing.

An audit measures the average loss on real texts; this check finds the worst pair of inputs, even if it is rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.longer_texts import against_longer
from epsilometer.auditing.claims.monte_carlo import COVERS_NOTHING, DRAWN, covers_some, monte_carlo, refutable_epsilons
from epsilometer.auditing.claims.noise_fit import DRAWS, noise_p_value
from epsilometer.auditing.claims.verdicts import (
    LARGEST_FOUND,
    NO_CLAIM,
    NOT_CHECKED,
    NOT_REFUTED,
    VIOLATED,
    loss_at_delta,
    pair_claims,
    rounded_up,
    rounding,
)
from epsilometer.auditing.curves.laws import ROUNDING, needed
from epsilometer.core.curves import Curve
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import WHOLE
from epsilometer.core.laws import Laws
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import HasBound, HasInputs, HasLaws, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import track

EXACT = 5000  # up to this many inputs, all pairs are enumerated
SAMPLED = 200  # if there are more inputs, a sample of this size is enumerated
ENTRIES = 2e11  # largest number of input pairs times outputs to enumerate, which takes minutes
_POOL = 2000  # number of inputs among which neighbours are searched
_CELLS = 1 << 17  # probabilities compared at a time, which fit in the processor's cache
_LARGEST = 700.0  # nats: larger exponents overflow
_BLOCK = 32  # inputs compared with all others at a time
_LISTS_NOTHING = (
    "the mechanism does not list its inputs and outputs; add `inputs` and `output_texts`, and `laws` for an exact "
    "check (docs/how-to/your-own-mechanism.md)"
)
_NO_LAW_FOR_CURVE = "a claim in zCDP, Renyi or GDP can only be checked by laws; add `laws` to the mechanism"
_UNITS_COMPOSE = "the divergences of a text's units add up, and a claim in zCDP, Renyi or GDP covers longer texts, too"
_SHOWS_MORE = (
    "the law of the units is within the claim, but `write` may put more of the source into the released text; no "
    "check of the law sees that, so audit the mechanism"
)
_NOT_LONGER = (
    "the claim also covers texts that are longer than the inputs; this check drew none of these texts; an audit tests "
    "some"
)
_NEVER = -1e300  # replaces ln 0, so that differences stay finite
_ALIKE = -1e300  # excess of two inputs with equal laws; so low that any other pair is reported instead


@dataclass(frozen=True)
class Extent:
    """Limits on the number of inputs that a check compares.

    inputs: up to this number of inputs, the laws of all pairs are compared. sampled: if there are more inputs, the size
    of the sample that is compared. random: for a mechanism without laws, the number of inputs whose outputs are
    sampled. entries: the approximate upper limit on the number of computed losses; a loss is computed for each output
    of each pair of inputs. bounded: True to compute the mechanism's own bound (`HasBound`), which compares all inputs
    and takes minutes for a large vocabulary.
    """

    inputs: int = EXACT
    sampled: int = SAMPLED
    random: int = DRAWN
    entries: float = ENTRIES
    bounded: bool = True

    @classmethod
    def of(cls, inputs: int) -> Extent:
        """Return limits with which a check compares this many inputs, or all inputs if there are fewer."""
        return cls(inputs, inputs, inputs)


USUAL = Extent()


def check_claim(
    mechanism: Mechanism, epsilon: float, alpha: float = 0.01, seed: int = 0, *, extent: Extent = USUAL
) -> Finding:
    """Run the strongest check that the mechanism allows."""
    claim = mechanism.guarantee(epsilon)
    if claim is None:
        return Finding(epsilon, "none", NO_CLAIM)
    if not isinstance(mechanism, HasInputs):
        return Finding(epsilon, "not checked", NOT_CHECKED, _LISTS_NOTHING)
    texts = list(mechanism.inputs)
    if claim.curve is not None:
        return _of_curve(mechanism, epsilon, claim.curve, texts, seed=seed, most=extent.sampled)
    if not isinstance(mechanism, HasLaws) or is_sampled(mechanism, epsilon):
        return _sampled(mechanism, epsilon, texts, alpha, seed=seed, random=extent.random)
    finding = _by_law(mechanism, epsilon, texts, extent, seed=seed)
    if finding.verdict == NOT_REFUTED:
        finding = against_longer(mechanism, finding)
    if finding.verdict == NOT_REFUTED and shows_more(mechanism):
        return replace(finding, verdict=NOT_CHECKED, reason=_SHOWS_MORE)
    return finding


def is_sampled(mechanism: Mechanism, epsilon: float) -> bool:
    """Return True if `check_claim` draws outputs, so that its verdict may be wrong with probability alpha."""
    claim = mechanism.guarantee(epsilon)
    if claim is None or claim.curve is not None or not isinstance(mechanism, HasInputs):
        return False
    if not isinstance(mechanism, HasLaws):
        return True
    return bool(claim.delta) and bool((mechanism.laws(mechanism.inputs).rows.lengths != 1).any())


def extra_epsilons(mechanism: Mechanism, epsilon: float, seed: int = 0) -> list[float]:
    """Return budgets at which draws could refute the claim of a sampled mechanism, derived from one budget."""
    if not is_sampled(mechanism, epsilon) or not isinstance(mechanism, HasInputs):
        return []
    return refutable_epsilons(mechanism, epsilon, list(mechanism.inputs), seed=seed)


def _of_curve(
    mechanism: Mechanism, epsilon: float, curve: Curve, texts: Sequence[str], *, seed: int, most: int
) -> Finding:
    """Check a claim in zCDP, Renyi or GDP on inputs of one unit each."""
    if not isinstance(mechanism, HasLaws):
        return Finding(epsilon, "not checked", NOT_CHECKED, _NO_LAW_FOR_CURVE)
    method = "exact"
    if len(texts) > most:
        texts, method = _sample(mechanism, epsilon, texts, most, seed=seed), LARGEST_FOUND
    table, units = _log_laws(mechanism, epsilon, texts)
    if units > 1:
        return Finding(epsilon, "not checked", NOT_CHECKED, _UNITS_COMPOSE, inputs=len(texts))
    finding = _compared(curve, epsilon, texts, laws=table, method=method)
    longer = mechanism.laws([" ".join([texts[0]] * 2)]).rows.lengths
    if finding.verdict == NOT_REFUTED and (longer > units).any():
        return replace(finding, verdict=NOT_CHECKED, reason=_UNITS_COMPOSE)
    if finding.verdict == NOT_REFUTED and shows_more(mechanism):
        return replace(finding, verdict=NOT_CHECKED, reason=_SHOWS_MORE)
    return finding


def _compared(curve: Curve, epsilon: float, texts: Sequence[str], *, laws: NDArray[np.float64], method: str) -> Finding:
    """Return the finding about the ordered pair of texts that needs the largest rho, divergence or mu.

    laws: log-laws [texts, outputs]. `claimed`, `worst` and `largest` of the finding are parameters of the claim's kind.
    """
    most, pair, claimed = -math.inf, (0, 0), curve.size
    for i in track(range(len(texts)), len(texts), f"inputs compared at epsilon {epsilon:g}"):
        for j in range(len(texts)):
            if i != j and (least := needed(curve, laws[i], laws[j])) > most:
                most, pair = least, (i, j)
    if most == -math.inf:
        return Finding(
            epsilon, method, NOT_CHECKED, "only one input is listed, and a claim compares two", inputs=len(texts)
        )
    broken = most > claimed * (1 + ROUNDING) + ROUNDING
    return Finding(
        epsilon,
        method,
        VIOLATED if broken else NOT_REFUTED,
        claimed=claimed,
        worst=most,
        witness=(texts[pair[0]], texts[pair[1]], curve.describe()),
        inputs=len(texts),
        largest=most,
    )


def _by_law(mechanism: Mechanism, epsilon: float, texts: Sequence[str], extent: Extent, *, seed: int) -> Finding:
    assert isinstance(mechanism, HasLaws)
    bound = mechanism.excess_bound(epsilon) if extent.bounded and isinstance(mechanism, HasBound) else None
    outputs = mechanism.laws(texts[:1]).outputs
    if len(texts) <= max(extent.inputs, extent.sampled) and len(texts) ** 2 * outputs <= extent.entries:
        return exact(mechanism, epsilon, texts, bound=bound)
    some = min(extent.sampled, len(texts), max(2, int(math.sqrt(extent.entries / outputs))))
    return exact(mechanism, epsilon, _sample(mechanism, epsilon, texts, some, seed=seed), LARGEST_FOUND, bound=bound)


def _sample(mechanism: Mechanism, epsilon: float, texts: Sequence[str], some: int, *, seed: int) -> list[str]:
    """Return a sample of `some` inputs: one half are random, and the other half are their nearest neighbours in a pool.

    A claim that grows with distance is smallest between near inputs.
    """
    order = np.argsort(Noise.named(len(texts), "worst case", seed).uniforms()[:, 0])
    chosen, others = np.split(order[:_POOL], [(some + 1) // 2])
    for here in chosen.tolist():
        if len(chosen) == some or not len(others):
            break
        claims = pair_claims(mechanism, epsilon, texts, np.stack([np.full(len(others), here), others], axis=1))
        nearest = int(claims.argmin())
        chosen, others = np.append(chosen, others[nearest]), np.delete(others, nearest)
    return [texts[i] for i in np.sort(chosen)]


def _sampled(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], alpha: float, *, seed: int, random: int
) -> Finding:
    claim = mechanism.guarantee(epsilon)
    assert claim is not None
    finding = monte_carlo(mechanism, epsilon, texts, random, alpha=alpha, seed=seed)
    if finding.verdict == NOT_REFUTED and claim.granularity in WHOLE:
        finding = replace(finding, reason="; ".join(filter(None, (finding.reason, _NOT_LONGER))))
    p = noise_p_value(mechanism, epsilon, texts, seed)
    if p is None:
        return finding
    if p > alpha:
        fits = finding.reason and f"{DRAWS:,} draws do not refute the claimed density of the noise (p = {p:.2g})"
    else:
        fits = f"the noise does not have the density that the claim needs (p = {p:.2g})"
        if finding.verdict == NOT_REFUTED:  # draws are weak evidence, and a premise of the claim's proof is false
            finding = replace(finding, verdict=NOT_CHECKED)
    reason = "; ".join(part for part in (finding.reason, fits) if part) or None
    return replace(finding, noise_p=p, reason=reason)


def exact(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], method: str = "exact", bound: float | None = None
) -> Finding:
    """Return the finding about the pair of texts whose largest loss over all outputs exceeds the claim most.

    Every text has one unit, or every text has n units that all have the text's law.
    """
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs):
        raise TypeError("an exact check needs the mechanism's laws and inputs")
    table, units = _log_laws(mechanism, epsilon, texts)
    best, largest, pair, covered = -math.inf, 0.0, (0, 0), 0
    starts = range(0, len(texts), _BLOCK)
    for start in track(starts, len(starts), f"blocks of inputs compared at epsilon {epsilon:g}"):
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
    finding = Finding(
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
    claim = mechanism.guarantee(epsilon)
    if finding.verdict == VIOLATED and claim and claim.delta:
        return _with_delta(mechanism, finding, texts=texts, laws=table, delta=claim.delta)
    return finding


def _log_laws(mechanism: HasLaws, epsilon: float, texts: Sequence[str]) -> tuple[NDArray[np.float64], int]:
    """Return each text's log-law [texts, outputs], which all its units have, and the number of units per text."""
    laws = mechanism.laws(texts)
    own, units = one_law_each(laws)
    rows, place = np.unique(own, return_inverse=True)
    table = np.empty((len(rows), laws.outputs))
    for start in range(0, len(rows), laws.chunk()):
        part = rows[start : start + laws.chunk()]
        (table[start : start + len(part)],) = laws.log_probabilities(part, [epsilon])
    return np.maximum(table, _NEVER, out=table)[place], units


def _with_delta(
    mechanism: Mechanism, finding: Finding, *, texts: Sequence[str], laws: NDArray[np.float64], delta: float
) -> Finding:
    """Return the finding about these texts for the claim with its delta.

    finding: shows that the claim would be violated if its delta were 0. laws: log-laws [texts, outputs], one unit each.
    The set S of all outputs y with P(y | x) > e^c P(y | x') has the largest P(S | x) - e^c P(S | x').
    """
    assert isinstance(mechanism, HasInputs)
    probable, epsilon = np.exp(laws), finding.epsilon
    most, pair = -math.inf, (0, 0)
    step = max(1, _CELLS // laws.shape[1])
    for here in range(len(texts)):
        for start in range(here + 1, len(texts), step):
            others = np.arange(start, min(start + step, len(texts)))
            pairs = np.stack([np.full(len(others), here), others], axis=1)
            claims = pair_claims(mechanism, epsilon, texts, pairs)
            factor = np.exp(np.minimum(claims + rounding(claims), _LARGEST))[:, None]
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
    output = int((left - math.exp(min(claimed, _LARGEST)) * right).argmax())
    return replace(
        finding,
        verdict=VIOLATED if most > rounded_up(delta) else NOT_REFUTED,
        claimed=claimed,
        worst=loss_at_delta(left, right, delta),
        witness=(texts[pair[0]], texts[pair[1]], mechanism.output_texts[output]),
    )


def one_law_each(laws: Laws) -> tuple[NDArray[np.integer], int]:
    """Return the law row of each text [n], and the number of units per text.

    Raises UserError unless all texts have the same number of units, and all units of a text have the same law.
    """
    units = int(laws.rows.lengths[0])
    own = laws.rows.values[:: max(1, units)]
    if not units or (laws.rows.lengths != units).any() or (laws.rows.values != np.repeat(own, units)).any():
        raise UserError(
            "for an exact check, each text must have one unit, or all texts equally many units that share a law",
            "EPS-A058",
        )
    return own, units


def _unbounded(loss: float) -> float:
    return math.inf if loss > -_NEVER / 2 else loss
