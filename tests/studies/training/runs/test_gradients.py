from __future__ import annotations

import numpy as np
import pytest

from epsilometer.studies.training.runs.gradients import DenseGradients


def rows(count: int = 5, size: int = 9) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, size)).astype(np.float32)


def test_dense_gradients_are_their_matrix() -> None:
    matrix = rows(5, 20_000)  # more columns than are processed at a time
    dense, weights = DenseGradients(matrix, (19_000, 1_000)), np.arange(5.0)
    exact = matrix.astype(np.float64)
    assert np.allclose(dense.norms(), np.linalg.norm(exact, axis=1), rtol=1e-12)
    assert np.allclose(dense.gram(), exact @ exact.T, rtol=1e-10)
    assert np.allclose(dense.product(exact[0]), exact @ exact[0], rtol=1e-10)
    assert np.allclose(dense.weighted_sum(weights), weights @ exact, atol=1e-4)
    assert (dense.count, dense.size, dense.parts) == (5, 20_000, (19_000, 1_000))
    assert np.array_equal(dense.part(1).matrix, matrix[:, 19_000:])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_example_that_is_not_finite_counts_as_zero_in_every_part(bad: float) -> None:
    matrix = rows()
    zero = matrix.copy()
    zero[2] = 0
    matrix[2, 7] = bad
    seen, wanted = DenseGradients(matrix, (4, 5)), DenseGradients(zero, (4, 5))
    for left, other in ((seen, wanted), (seen.part(0), wanted.part(0)), (seen.part(1), wanted.part(1))):
        assert np.array_equal(left.norms(), other.norms())
        assert np.array_equal(left.gram(), other.gram())
        assert np.array_equal(left.weighted_sum(np.ones(5)), other.weighted_sum(np.ones(5)))
        assert np.array_equal(left.product(np.ones(left.size)), other.product(np.ones(left.size)))


def test_an_empty_batch_sums_to_zero() -> None:
    empty = DenseGradients(np.empty((0, 9), np.float32))
    assert np.array_equal(empty.weighted_sum(np.empty(0)), np.zeros(9))
    assert empty.gram().shape == (0, 0)
    assert empty.norms().shape == empty.product(np.ones(9)).shape == (0,)


def test_parts_have_all_numbers() -> None:
    with pytest.raises(ValueError, match=r" 9 .*\(4, 4\)"):
        DenseGradients(rows(), (4, 4))
