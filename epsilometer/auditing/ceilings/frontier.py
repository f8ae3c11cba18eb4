"""The largest worth that any mechanism can have on K texts at a guess loss.

Given are K texts and audited pairs of these texts. A text's weight pi_i is the probability that it is the source. The
pairs have weights, too. The weights of the texts sum to 1, and so do the weights of the pairs. A mechanism is a law P_i
over outputs for each text i. The worth of output y for text i is u(i, y), and the worth of the mechanism is

    U = sum over i of pi_i sum over y of P_i(y) u(i, y).

For a set A of texts let g(A) be the worth of the best single output for all texts in A, and h(A) the total weight of
the pairs with at least one text in A:

    g(A) = max over y of sum over i in A of pi_i u(i, y).

If the best adversary finds the source among the two equally likely texts of a pair with mean probability p, then
U <= F(p):

    F(p) = max sum_A w_A g(A)   over w >= 0,    sum over A containing i of w_A = 1 for every i,
                                sum_A w_A h(A) / 2 <= p.

Proof. For an output y let q = (P_1(y), ..., P_K(y)), the integral over t of the indicators of its level sets
{i: q_i >= t}. The level sets are nested, so max(q_a, q_b) is the integral of 1[level set meets {a, b}]. The success on
a pair is half the sum over y of max(P_a(y), P_b(y)). So the success is half of sum_A w_A 1[A meets {a, b}], where w_A
is the measure of the level set A over all outputs. The contribution of y to U is at most f(q) = max over y' of sum pi_i
q_i u(i, y'). As f is sublinear, f(q) is at most the integral of f over the level sets, and f of a level set A is g(A).
The laws sum to one, which is the first condition. Some mechanism reaches F: for each i in A, it releases the best
output for A with probability w_A.

Under pure epsilon between all texts, outputs are mixtures of q_A = e^-epsilon + (1 - e^-epsilon) 1_A (Kairouz, Oh and
Viswanath, JMLR 2016), so the ceiling is max sum_A w_A f(q_A) over w >= 0 with sum_A w_A q_A(i) = 1.

If worth is the cosine of unit embeddings e_i, then g(A) = |sum over i in A of pi_i e_i|, where any unit vector counts
as an output. Perhaps no text has the best vector as its embedding, so the ceiling may be out of reach. This ceiling
applies only to a worth that is a function of one original and its output. It does not apply to the F1 of a classifier
trained on many rewrites.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from epsilometer.auditing.ceilings.programmes import largest
from epsilometer.core.errors import UserError
from epsilometer.core.sizes import LARGEST_SET

_SLACK = 1e-7  # largest error of a solved programme
_ROUNDED = 1e-4  # largest rounding error of an embedding's length above 1

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TextSet:
    """K texts that one mechanism serves, and the pairs of them that are audited.

    vectors: unit embeddings, float64 [K, d]. pairs: [m, 2], indices of texts; both texts of a pair are equally likely
    as source. weights: [m], the shares of the pairs in the audit, which sum to 1.
    """

    vectors: Array
    pairs: NDArray[np.integer]
    weights: Array

    def __post_init__(self) -> None:
        if not 2 <= len(self.vectors) <= LARGEST_SET:
            raise UserError(
                f"a ceiling needs sets of 2 to {LARGEST_SET} texts, got {len(self.vectors)}; draw smaller sets",
                "EPS-A047",
            )
        longest = np.linalg.norm(self.vectors, axis=1).max()
        if not longest <= 1 + _ROUNDED:
            raise UserError(
                "a ceiling needs bounded worth, such as cosines of embeddings of length 1, got a length of "
                f"{longest:g}; scale the embeddings",
                "EPS-A048",
            )

    @classmethod
    def of_all_pairs(cls, vectors: Array) -> TextSet:
        """Return a set of texts whose pairs are all audited equally often."""
        pairs = np.stack(np.triu_indices(len(vectors), 1), axis=1)
        return cls(np.asarray(vectors, np.float64), pairs, np.full(len(pairs), 1 / len(pairs)))

    @property
    def sources(self) -> Array:
        """pi: [K], half the total weight of the pairs that contain each text."""
        counted = np.bincount(self.pairs.ravel(), np.repeat(self.weights / 2, 2), minlength=len(self.vectors))
        return counted.astype(np.float64)

    def worths(self, low: float = 0.0) -> Array:
        """Return [subsets]: the largest worth (cosine) of one output for each set A; texts outside A have weight `low`.

        With low = 0 this is g(A); with low = e^-epsilon it is f(q_A), for outputs under pure epsilon.
        """
        held = low + (1 - low) * subsets(len(self.vectors))
        scaled = self.sources[:, None] * self.vectors
        squares: Array = np.einsum("ai,ij,aj->a", held, scaled @ scaled.T, held, optimize=True)
        return np.sqrt(np.maximum(squares, 0))

    def met(self) -> Array:
        """h: [subsets], the weight of the pairs with at least one text in each set."""
        held = subsets(len(self.vectors)).astype(bool)
        return (held[:, self.pairs[:, 0]] | held[:, self.pairs[:, 1]]) @ self.weights


@dataclass(frozen=True)
class Frontier:
    """Bounds of F, piecewise linear in the success probability p from 1/2 to 1.

    at: [n], ascending values of p. lower: [n], F at these values; since F is concave, it is nowhere below the lines
    between these points. upper: [n], upper bounds of F: `lower` plus the largest error of the solved programmes.
    """

    at: Array
    upper: Array
    lower: Array

    def ceiling(self, success: Array | float) -> Array:
        """Return the largest worth if the best adversary has these success probabilities."""
        return np.asarray(np.interp(success, self.at, self.upper))

    def needed(self, worth: float) -> float:
        """Return the smallest success probability, at least 1/2, that allows this worth; infinity if none does."""
        if worth <= self.upper[0]:
            return 0.5
        if worth > self.upper[-1]:
            return math.inf
        rising = np.append(True, np.diff(self.upper) > 0)
        return float(np.interp(worth, self.upper[rising], self.at[rising]))


def frontier(texts: TextSet) -> Frontier:
    """Return F of one set of texts."""
    return frontiers([texts])[0]


def frontiers(served: Sequence[TextSet]) -> list[Frontier]:
    """Return F of each set, as the points at which its slope changes.

    F is concave, so its tangent with slope l has the intercept (at p = 0) max sum_A w_A (g(A) - l h(A) / 2), where w
    only has to meet the first condition. Let l be the slope of the chord between two points of F. If the tangent
    coincides with the chord, F equals the chord between the points. Otherwise the maximum is at a point of F above the
    chord.
    """
    result: dict[int, Frontier] = {}
    for count in {len(texts.vectors) for texts in served}:
        places = [place for place, texts in enumerate(served) if len(texts.vectors) == count]
        result |= zip(places, _traced([served[place] for place in places]), strict=True)
    return [result[place] for place in range(len(served))]


def _traced(served: Sequence[TextSet]) -> list[Frontier]:
    """Return F of several sets with equally many texts each."""
    held, start = subsets(count := len(served[0].vectors)), (1 << np.arange(count)) - 1
    worths, met = np.array([texts.worths() for texts in served]), np.array([texts.met() / 2 for texts in served])
    points = [
        {0.5: float(worth[_connected(texts)].sum()), 1.0: float(worth[start].sum())}
        for texts, worth in zip(served, worths, strict=True)
    ]
    gaps = np.full(len(served), _SLACK)
    chords = [(place, 0.5, 1.0) for place in range(len(served))]
    while chords:
        number, left, right = (np.array(each) for each in zip(*chords, strict=True))
        low, high = (np.array([points[i][p] for i, p in zip(number, side, strict=True)]) for side in (left, right))
        slopes = np.maximum(high - low, 0) / (right - left)
        solved = largest(worths[number] - slopes[:, None] * met[number], held, start)
        gap, at, worth = solved.bounds + slopes * left - low, solved.total(met[number]), solved.total(worths[number])
        bends = (gap > _SLACK) & (left < at) & (at < right)
        np.maximum.at(gaps, number[~bends], gap[~bends])
        chords = []
        for i, a, middle, b, value in zip(
            *(each[bends].tolist() for each in (number, left, at, right, worth)), strict=True
        ):
            points[i][middle] = value
            chords += [(i, a, middle), (i, middle, b)]
    return [_polygon(each, gap) for each, gap in zip(points, gaps.tolist(), strict=True)]


def _polygon(points: dict[float, float], gap: float) -> Frontier:
    at, lower = np.array(sorted(points.items())).T
    return Frontier(at, lower + gap, lower)


def _connected(texts: TextSet) -> NDArray[np.int64]:
    """Return rows of `subsets`: the connected components of the audited pairs. These sets are best at success 1/2."""
    count = len(texts.vectors)
    audited = texts.pairs[texts.weights > 0]
    graph = coo_array((np.ones(len(audited)), audited.T), (count, count))
    number, label = connected_components(graph, directed=False)
    return np.array([(1 << np.flatnonzero(label == each)).sum() - 1 for each in range(number)])


def under_pure_epsilon(served: Sequence[TextSet], epsilon: float) -> Array:
    """Return [sets]: the largest worth of any mechanism with this pure epsilon between every two texts of a set."""
    low, worths = math.exp(-epsilon), np.empty(len(served))
    counts = np.array([len(texts.vectors) for texts in served])
    for count in np.unique(counts).tolist():
        some = np.flatnonzero(counts == count)
        objectives = np.array([served[place].worths(low) for place in some.tolist()])
        worths[some] = largest(objectives, low + (1 - low) * subsets(count), (1 << np.arange(count)) - 1).bounds
    return worths + _SLACK


def mean(frontiers: Sequence[Frontier], weights: Array | None = None) -> Frontier:
    """Return F of several sets together; each set may have its own mechanism and success.

    weights: the weights of the sets, None if all sets are audited equally often. Mean worth is largest if success rises
    first where worth rises fastest, so the linear pieces of all sets are joined in descending order of slope.
    """
    weights = np.ones(len(frontiers)) if weights is None else weights
    parts, shares = [], (weights / weights.sum()).tolist()
    for side in ("upper", "lower"):
        ends = [getattr(frontier, side) for frontier in frontiers]
        steps = np.concatenate([np.diff(each.at) * share for each, share in zip(frontiers, shares, strict=True)])
        rises = np.concatenate([np.diff(end) * share for end, share in zip(ends, shares, strict=True)])
        order = np.argsort(-rises / np.maximum(steps, 1e-300), kind="stable")
        begin = sum(float(end[0]) * share for end, share in zip(ends, shares, strict=True))
        parts.append((0.5 + np.cumsum(np.append(0, steps[order])), begin + np.cumsum(np.append(0, rises[order]))))
    (at, upper), (under, lower) = parts
    return Frontier(at, upper, np.interp(at, under, lower))


def success_of(loss: Array | float) -> Array:
    """Return the success probability between two texts at a guess loss l in nats: e^l / (1 + e^l)."""
    return 1 / (1 + np.exp(-np.asarray(loss, np.float64)))


def loss_of(success: float) -> float:
    """Return the guess loss in nats of a success probability between two texts; infinite from probability 1 on."""
    return math.inf if success >= 1 else math.log(success / (1 - success))


@cache
def subsets(count: int) -> Array:
    """Return [2^count - 1, count]: a row per non-empty subset, 1 for the texts in it and 0 for the others."""
    held = ((np.arange(1, 1 << count)[:, None] >> np.arange(count)) & 1).astype(np.float64)
    held.setflags(write=False)
    return held
