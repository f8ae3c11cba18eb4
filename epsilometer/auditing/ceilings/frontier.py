"""The largest worth that any mechanism can have on K texts at a guess loss.

K texts with weights pi (how often each is the source; sum 1), audited pairs among them with weights (sum 1). A
mechanism is any law P_i over outputs of any kind; the worth of output y for text i is u(i, y), and

    U = sum over i of pi_i sum over y of P_i(y) u(i, y).

For a set A of the texts let g(A) be the worth of the best single output for all of A, and h(A) the weight of the pairs
of which A holds at least one text:

    g(A) = max over y of sum over i in A of pi_i u(i, y).

If the best adversary names the source of a pair, of two equally likely texts, with mean probability p, then U <= F(p):

    F(p) = max sum_A w_A g(A)   over w >= 0,    sum over A containing i of w_A = 1 for every i,
                                sum_A w_A h(A) / 2 <= p.

Proof. For an output y let q = (P_1(y), ..., P_K(y)), the integral over t of the indicators of its level sets
{i: q_i >= t}. These are nested, so max(q_a, q_b) is the integral of 1[level set meets {a, b}], and the success, half
the sum over y of max(P_a, P_b), is half of sum_A w_A 1[A meets {a, b}] with w_A the measure of the level set A over all
outputs. The worth of y is at most f(q) = max over y' of sum pi_i q_i u(i, y'), which is sublinear, hence at most the
integral of f of the level sets, which is g. The laws sum to one, which is the first condition. And F is reached:
release A with probability w_A for every i in A.

Under pure epsilon between all texts, outputs are mixtures of q_A = e^-epsilon + (1 - e^-epsilon) 1_A (Kairouz, Oh and
Viswanath, JMLR 2016), so the ceiling is max sum_A w_A f(q_A) over w >= 0 with sum_A w_A q_A(i) = 1.

With the cosine of unit embeddings e_i as worth, g(A) = |sum over i in A of pi_i e_i|: any unit vector may come out. A
text need not lie there, so it is a ceiling that perhaps nobody can reach. Worth that is no function of original and
output (F1 after training on many rewrites) has no such ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from epsilometer.core.errors import UserError
from epsilometer.core.sizes import LARGEST_SET

_SLACK = 1e-7  # what a solved programme may miss
_ROUNDED = 1e-4  # how far the length of an embedding may exceed 1
_FINE = 1e-3  # how far tangents and chords of F may lie apart

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TextSet:
    """K texts that one mechanism serves, and how they are audited.

    vectors: unit embeddings, float64 [K, d]. pairs: [m, 2] numbers of texts, audited with `weights` [m], which sum
    to 1; both texts of a pair are equally often the source.
    """

    vectors: Array
    pairs: NDArray[np.integer]
    weights: Array

    def __post_init__(self) -> None:
        if not 2 <= len(self.vectors) <= LARGEST_SET:
            raise UserError(
                f"a ceiling is computed for sets of 2 to {LARGEST_SET} texts, got {len(self.vectors)}; draw smaller "
                "sets"
            )
        longest = np.linalg.norm(self.vectors, axis=1).max()
        if not longest <= 1 + _ROUNDED:
            raise UserError(
                "a ceiling is known of worth that has bounds, such as cosines: embeddings must have a length of 1, got "
                f"one of {longest:g}; scale them"
            )

    @classmethod
    def of_all_pairs(cls, vectors: Array) -> TextSet:
        """Every pair of the texts is audited equally often."""
        pairs = np.stack(np.triu_indices(len(vectors), 1), axis=1)
        return cls(np.asarray(vectors, np.float64), pairs, np.full(len(pairs), 1 / len(pairs)))

    @property
    def sources(self) -> Array:
        """pi: [K], half the weight of each text's pairs."""
        counted = np.bincount(self.pairs.ravel(), np.repeat(self.weights / 2, 2), minlength=len(self.vectors))
        return counted.astype(np.float64)

    def worths(self, low: float = 0.0) -> Array:
        """[subsets]: the largest cosine worth of one output for each set A, where texts outside of A count `low` times.

        low 0: g(A). low e^-epsilon: f(q_A), of outputs under pure epsilon.
        """
        held = low + (1 - low) * subsets(len(self.vectors))
        scaled = self.sources[:, None] * self.vectors
        squares: Array = np.einsum("ai,ij,aj->a", held, scaled @ scaled.T, held, optimize=True)
        return np.sqrt(np.maximum(squares, 0))

    def met(self) -> Array:
        """h: [subsets], the weight of the pairs of which each set holds at least one text."""
        held = subsets(len(self.vectors)).astype(bool)
        return (held[:, self.pairs[:, 0]] | held[:, self.pairs[:, 1]]) @ self.weights


@dataclass(frozen=True)
class Frontier:
    """Bounds of F, piecewise linear in the success probability p from 1/2 to 1.

    at: [n], ascending; upper: [n], tangents of F meet there, so F never lies above their polygon; lower: [n], F lies
    nowhere below this polygon of chords. `upper` is never more than a thousandth above `lower`.
    """

    at: Array
    upper: Array
    lower: Array

    def ceiling(self, success: Array | float) -> Array:
        """The largest worth at success probabilities of the best adversary."""
        return np.asarray(np.interp(success, self.at, self.upper))

    def needed(self, worth: float) -> float:
        """The least success probability that allows a worth; 1/2 where everyone may have it, inf where nobody can."""
        if worth <= self.upper[0]:
            return 0.5
        if worth > self.upper[-1]:
            return math.inf
        rising = np.append(True, np.diff(self.upper) > 0)
        return float(np.interp(worth, self.upper[rising], self.at[rising]))


def frontier(texts: TextSet) -> Frontier:
    """F of one set of texts, by the tangents of solved programmes: about a dozen of 2^K - 1 variables."""
    worths, met = texts.worths(), texts.met()
    solved = {p: _solve(worths, met, p) for p in (0.5, 1.0)}
    open_intervals = [(0.5, 1.0)]
    while open_intervals:
        left, right = open_intervals.pop()
        (low, slope), (high, flat) = solved[left], solved[right]
        if right - left < _SLACK or slope - flat < _SLACK:
            continue
        middle = (high - low + slope * left - flat * right) / (slope - flat)  # where their tangents meet
        middle = min(max(middle, left), right)
        gap = low + slope * (middle - left) - (low + (high - low) * (middle - left) / (right - left))
        if gap > _FINE and left < middle < right:
            solved[middle] = _solve(worths, met, middle)
            open_intervals += [(left, middle), (middle, right)]
    points = sorted(solved)
    tangents = np.array([(solved[p][0] - solved[p][1] * p, solved[p][1]) for p in points])
    corners = [points[0], points[-1], *points]
    for (a, s), (b, t) in pairwise(tangents):
        if s - t > _SLACK:
            corners.append(min(max((b - a) / (s - t), 0.5), 1.0))
    at = np.unique(corners)
    upper = (tangents[:, :1] + tangents[:, 1:] * at).min(axis=0) + _SLACK
    lower = np.interp(at, points, [solved[p][0] for p in points])
    return Frontier(at, upper, lower)


def under_pure_epsilon(texts: TextSet, epsilon: float) -> float:
    """The largest worth of any mechanism with this pure epsilon between every two of the texts."""
    low = math.exp(-epsilon)
    held = low + (1 - low) * subsets(len(texts.vectors))
    solved = linprog(-texts.worths(low), A_eq=held.T, b_eq=np.ones(held.shape[1]), method="highs")
    return float(-solved.fun) + _SLACK


def mean(frontiers: Sequence[Frontier], weights: Array | None = None) -> Frontier:
    """F of several sets, each of which may have a mechanism and a success of its own.

    weights: of the sets; None: all are audited equally often. Success is spent first where worth rises most: the pieces
    of all sets in the order of their slopes.
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
    """The success probability among two at a guess loss in nats: e^l / (1 + e^l)."""
    return 1 / (1 + np.exp(-np.asarray(loss, np.float64)))


def loss_of(success: float) -> float:
    """The guess loss in nats of a success probability among two; infinite from 1 on."""
    return math.inf if success >= 1 else math.log(success / (1 - success))


@cache
def subsets(count: int) -> Array:
    """[2^count - 1, count]: which texts each subset holds, the empty one left out."""
    held = ((np.arange(1, 1 << count)[:, None] >> np.arange(count)) & 1).astype(np.float64)
    held.setflags(write=False)
    return held


def _solve(worths: Array, met: Array, success: float) -> tuple[float, float]:
    """F at a success probability, and its slope there."""
    held = subsets(int(math.log2(len(worths) + 1)))
    solved = linprog(
        -worths, A_ub=met[None] / 2, b_ub=[success], A_eq=held.T, b_eq=np.ones(held.shape[1]), method="highs"
    )
    if not solved.success:
        raise RuntimeError(f"no ceiling at a success probability of {success:g}: {solved.message}")
    return float(-solved.fun), max(0.0, float(-solved.ineqlin.marginals[0]))
