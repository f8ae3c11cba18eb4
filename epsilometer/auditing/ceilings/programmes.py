"""Solver of many small linear programmes at once, which differ only in their objectives c.

    F(c) = max over w >= 0 of sum over A of w_A c_A,    sum over A of w_A a_A(i) = 1 for every i.

A column A has the weight w_A and the given entries a_A(i), one for each of K constraints i. The simplex method with
Dantzig's rule runs on all programmes at once. Each step takes only a few small matrix products, whereas one call of a
general solver would take milliseconds. The right-hand sides (1) are perturbed by about 1e-9, differently in each row,
so no basis is degenerate and every step improves the objective (Charnes 1952).

The last dual solution y proves an upper bound: if t is so large that sum_i (y_i + t) a_A(i) >= c_A for every A, then
F(c) <= sum_i (y_i + t). Perturbation and rounding make this bound about 1e-9 larger than F(c). If t would raise the
bound by more than 1e-9, or if the columns are too similar to invert their matrix, SciPy's HiGHS solves the programme.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

_PERTURBED = 1e-9
_OPTIMAL = 1e-10  # a basis is optimal if no column gains more than this
_POSITIVE = 1e-9  # smaller entries of a direction count as 0
_NONE = 1e-6  # the perturbation can make a weight negative by up to this; such a weight counts as 0
_STEPS = 1000
_ALIKE = 1e6  # largest condition number of the first basis

Array = NDArray[np.float64]


class Solved(NamedTuple):
    """The solutions of n programmes. bounds: [n], upper bounds of F. columns, weights: [n, K], an optimal basis."""

    bounds: Array
    columns: NDArray[np.int64]
    weights: Array

    def total(self, table: Array) -> Array:
        """Return [n]: the sum over A of w_A times the entry of A in each programme's row of a table [n, columns]."""
        totals: Array = (np.take_along_axis(table, self.columns, axis=1) * self.weights).sum(axis=1)
        return totals


def largest(objectives: Array, columns: Array, start: NDArray[np.integer]) -> Solved:
    """Solve the programmes with objectives c [n, columns].

    columns: [columns, K], the entries a_A(i), not negative. start: [K], indices of columns that satisfy the constraints
    with positive weights.
    Raises RuntimeError for a programme without a solution.
    """
    count, rows = len(objectives), columns.shape[1]
    basis, weights, bounds = np.tile(start, (count, 1)), np.empty((count, rows)), np.full(count, np.nan)
    if np.linalg.cond(columns[start]) < _ALIKE:
        duals, inverse = _simplex(objectives, columns, basis)
        missing = (objectives - duals @ columns.T) / columns.sum(axis=1)
        raised = rows * np.maximum(missing.max(axis=1), 0)
        weights = inverse.sum(axis=2)
        solved = (raised <= _PERTURBED) & (weights.min(axis=1) >= -_NONE)
        bounds, weights = np.where(solved, duals.sum(axis=1) + raised, np.nan), np.maximum(weights, 0)
    for i in np.flatnonzero(np.isnan(bounds)):
        by_highs = linprog(-objectives[i], A_eq=columns.T, b_eq=np.ones(rows), method="highs")
        if not by_highs.success:
            raise RuntimeError(f"a linear programme of a ceiling has no solution: {by_highs.message}")
        basis[i] = np.argsort(-by_highs.x, kind="stable")[:rows]
        bounds[i], weights[i] = -by_highs.fun, by_highs.x[basis[i]]
    return Solved(bounds, basis, weights)


def _simplex(objectives: Array, columns: Array, basis: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return the last duals [n, K] and the inverses of the last bases [n, K, K]; `basis` [n, K] is updated in place."""
    ones = 1 + _PERTURBED * np.cbrt(np.arange(2, columns.shape[1] + 2))
    inverse = np.linalg.inv(columns[basis].transpose(0, 2, 1)).astype(np.float64)
    duals: Array = np.empty(basis.shape)
    active = np.arange(len(basis))
    for _ in range(_STEPS):
        at = np.take_along_axis(objectives[active], basis[active], axis=1)
        duals[active] = np.einsum("nj,nji->ni", at, inverse[active])
        gains = objectives[active] - duals[active] @ columns.T
        entering = gains.argmax(axis=1)
        going = gains[np.arange(len(active)), entering] > _OPTIMAL
        active, entering = active[going], entering[going]
        if not len(active):
            break
        before, each = inverse[active], np.arange(len(active))
        direction, values = np.einsum("nij,nj->ni", before, columns[entering]), before @ ones
        with np.errstate(divide="ignore", invalid="ignore"):
            leaving = np.where(direction > _POSITIVE, values / direction, np.inf).argmin(axis=1)
        row = before[each, leaving] / direction[each, leaving, None]
        direction[each, leaving] = 0
        inverse[active] = before - direction[:, :, None] * row[:, None]
        inverse[active, leaving] = row
        basis[active, leaving] = entering
    return duals, inverse
