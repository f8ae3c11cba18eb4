"""Linear programmes solved together have the same solutions as one by one, also if bases are degenerate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from epsilometer.auditing.ceilings import programmes
from epsilometer.auditing.ceilings.frontier import subsets
from epsilometer.auditing.ceilings.programmes import largest

COUNT = 6
START = (1 << np.arange(COUNT)) - 1


def objectives(kind: str) -> np.ndarray:
    """[12, subsets]: any numbers, few different ones (ties), or lengths of sums of vectors, as ceilings have."""
    rng, held = np.random.default_rng(3), subsets(COUNT)
    if kind == "any":
        return rng.normal(size=(12, len(held)))
    if kind == "ties":
        return rng.integers(-1, 3, (12, len(held))).astype(float)
    return np.array([np.linalg.norm(held @ rng.normal(0.3, 1, (COUNT, 4)), axis=1) for _ in range(12)])


@pytest.mark.parametrize("kind", ["any", "ties", "lengths"])
@pytest.mark.parametrize("low", [0.0, 0.1, 0.9, 1 - 1e-9, 1.0])
def test_solutions_are_those_of_a_solver(kind: str, low: float) -> None:
    """low: 1 where all columns are the same, so that the first basis is singular."""
    columns, worths = low + (1 - low) * subsets(COUNT), objectives(kind)
    solved = largest(worths, columns, START)
    expected = [-linprog(-each, A_eq=columns.T, b_eq=np.ones(COUNT), method="highs").fun for each in worths]
    np.testing.assert_allclose(solved.bounds, expected, atol=1e-7)
    np.testing.assert_allclose(solved.total(worths), expected, atol=1e-7)
    assert (solved.weights >= 0).all()
    of_all = np.einsum("nj,nji->ni", solved.weights, columns[solved.columns])
    np.testing.assert_allclose(of_all, 1, atol=1e-7)


def test_what_steps_do_not_solve_a_solver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, worths = subsets(COUNT), objectives("lengths") ** 2
    expected = largest(worths, columns, START).bounds
    monkeypatch.setattr(programmes, "_STEPS", 2)
    np.testing.assert_allclose(largest(worths, columns, START).bounds, expected, atol=1e-7)


def test_a_programme_without_a_solution_is_said() -> None:
    with pytest.raises(RuntimeError, match="infeasible"):
        largest(np.ones((1, 3)), np.array([[1.0, 2.0], [1.0, 3.0], [2.0, 4.0]]), np.array([0, 1]))
