"""Per-example gradients of a batch, with the operations that noise needs: norms, inner products, weighted sums.

An `ExampleGradients` stores either a matrix (`DenseGradients`) or the factors of a head's gradients (`factored`). With
factors, all operations have closed forms, and no example's gradient is formed. For bert-base's head with two classes
(`heads`), a gradient would have 592,130 numbers.

A gradient that is not finite counts as zero. Otherwise one text could turn the sum of a step into NaN and so reveal its
presence in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 1 << 13  # columns of a matrix that are converted to float64 at a time


class ExampleGradients(Protocol):
    """The gradients of L examples with respect to d parameters, which form m tensors, one after the other."""

    @property
    def count(self) -> int:
        """L, the number of examples; 0 for an empty batch."""
        ...

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        ...

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the m tensors, in order; their sum is d."""
        ...

    def norms(self) -> NDArray[np.float64]:
        """Return the lengths of the gradients [L]."""
        ...

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the sum [d] of the gradients times their weights [L]."""
        ...

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [L, L] of the gradients."""
        ...

    def product(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the inner products [L] of the gradients with a vector [d]."""
        ...

    def part(self, number: int) -> ExampleGradients:
        """Return the gradients with respect to one tensor."""
        ...


@dataclass(frozen=True)
class DenseGradients:
    """Gradients as a matrix [L, d].

    lengths: the lengths of the tensors; empty for one tensor. Raises ValueError if their sum is not d.
    """

    matrix: NDArray[np.floating]
    lengths: Sequence[int] = ()

    def __post_init__(self) -> None:
        if sum(self.parts) != self.size:
            raise ValueError(f"the parts must sum to {self.size} numbers, got {self.parts}")

    @property
    def count(self) -> int:
        """L, the number of examples."""
        return len(self.matrix)

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        return self.matrix.shape[1]

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the tensors."""
        return tuple(self.lengths) or (self.size,)

    @cached_property
    def finite(self) -> NDArray[np.floating]:
        """The matrix [L, d] with zeros for the gradients that are not finite."""
        bad = ~np.isfinite(np.einsum("ij,ij->i", self.matrix, self.matrix, dtype=np.float64))
        return np.where(bad[:, None], 0, self.matrix) if bad.any() else self.matrix

    def norms(self) -> NDArray[np.float64]:
        """Return the lengths of the gradients [L]."""
        return np.sqrt(np.einsum("ij,ij->i", self.finite, self.finite, dtype=np.float64))

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the sum [d] of the gradients times their weights [L]."""
        out = np.empty(self.size, np.float32)
        for start in range(0, self.size, _COLUMNS):
            part = slice(start, start + _COLUMNS)
            out[part] = weights @ self.finite[:, part].astype(np.float64)
        return out

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [L, L] of the gradients, summed in float64."""
        out = np.zeros((self.count, self.count))
        for start in range(0, self.size, _COLUMNS):
            columns = self.finite[:, start : start + _COLUMNS].astype(np.float64)
            out += columns @ columns.T
        return out

    def product(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the inner products [L] of the gradients with a vector [d], summed in float64."""
        out = np.zeros(self.count)
        for start in range(0, self.size, _COLUMNS):
            part = slice(start, start + _COLUMNS)
            out += self.finite[:, part].astype(np.float64) @ vector[part].astype(np.float64)
        return out

    def part(self, number: int) -> DenseGradients:
        """Return the gradients of one tensor. A row that is not finite in some tensor is zero in all of them."""
        start = sum(self.parts[:number])
        return DenseGradients(self.finite[:, start : start + self.parts[number]])
