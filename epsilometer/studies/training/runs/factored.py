"""Per-example gradients in factored form: one outer product per tensor and example.

For one example, the gradient with respect to an affine map's weight is u v', where u is the gradient at the map's
outputs and v is its input. The gradient with respect to a bias or a norm's factor is a vector u. So the gradients g_i
of L examples have, for each tensor, factors U [L, m] and V [L, n] with rows u_i and v_i. For weights w_i and a tensor M

    |g_i|^2    = sum over tensors of |u_i|^2 |v_i|^2
    <g_i, g_j> = sum of (u_i . u_j) (v_i . v_j)
    <g_i, M>   = sum of u_i' M v_i
    sum w_i g_i = U' diag(w) V, tensor by tensor

For a bias or a norm's factor, v is 1. No gradient is ever formed: for a batch of 128 examples and a pooler of 768 by
768, the factors take 1 MB instead of 300 MB.

An example counts as finite if its norm is finite and representable in float32. The gradients of other examples count as
zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Factor:
    """The gradients of L examples with respect to one tensor.

    left:  [..., L, m], the u of each example.
    right: [..., L, n], the v of each example; None for a tensor with one axis.
    Axes before L number the models, which have one shape; `left` or `right` may lack these axes.
    """

    left: NDArray[np.float32]
    right: NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """The number of entries of the tensor."""
        return self.left.shape[-1] * (1 if self.right is None else self.right.shape[-1])

    def squares(self) -> NDArray[np.float64]:
        """Return the squared lengths [..., L]; infinite or NaN if a gradient is not finite or float32 overflows."""
        return _squares(self.left) * (1.0 if self.right is None else _squares(self.right))

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [..., L, L] of the gradients."""
        return _gram(self.left) * (1.0 if self.right is None else _gram(self.right))

    def weighted_sum(self, weights: NDArray[np.float64], out: NDArray[np.float32]) -> None:
        """Write the sum of the gradients times their weights [..., L] into out [..., m, n], or [..., m]."""
        left = (self.left * weights[..., None]).astype(np.float32)
        if self.right is None:
            np.sum(left, axis=-2, out=out)
        else:
            np.matmul(left.swapaxes(-1, -2), self.right, out=out)

    def product(self, tensor: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the gradients' inner products [..., L] with a tensor [..., m, n] or [..., m].

        The products have the tensor's precision.
        """
        if self.right is None:
            product: NDArray[np.float64] = (self.left @ tensor[..., None])[..., 0].astype(np.float64)
            return product
        return np.einsum("...lj,...lj->...l", self.left @ tensor, self.right, dtype=np.float64)

    def shape(self, leading: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the tensor. leading: the axes of the models."""
        sides = (self.left,) if self.right is None else (self.left, self.right)
        return (*leading, *(side.shape[-1] for side in sides))


@dataclass(frozen=True)
class FactoredGradients:
    """`ExampleGradients` in factored form, one factor per tensor, in order.

    For several models, all input and output arrays have the axes of the models in front: [..., L] instead of [L].
    """

    factors: Sequence[Factor]

    @property
    def count(self) -> int:
        """L, the number of examples."""
        return self.factors[0].left.shape[-2]

    @property
    def size(self) -> int:
        """d, the number of parameters of one model."""
        return sum(self.parts)

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the tensors."""
        return tuple(factor.size for factor in self.factors)

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """The gradients' lengths [..., L]; infinite or NaN if a gradient is not finite or float32 overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            lengths: NDArray[np.float64] = np.sqrt(sum((factor.squares() for factor in self.factors), np.zeros(())))
        return lengths

    @cached_property
    def finite(self) -> Sequence[Factor]:
        """The factors, with zeros for the examples whose gradients are not finite."""
        good = self._lengths <= _LARGEST
        if good.all():
            return self.factors
        sides = [(_only(factor.left, good), _only(factor.right, good)) for factor in self.factors]
        return [Factor(left, right) for left, right in sides if left is not None]

    def norms(self) -> NDArray[np.float64]:
        """Return the lengths of the gradients [L]."""
        return np.where(self._lengths <= _LARGEST, self._lengths, 0.0)

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the sum [d] of the gradients times their weights [L]."""
        leading = self._leading
        out = np.empty((*leading, self.size), np.float32)
        start = 0
        for factor in self.finite:
            part = out[..., start : start + factor.size].reshape(factor.shape(leading), copy=False)
            factor.weighted_sum(weights, part)
            start += factor.size
        return out

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [L, L] of the gradients, in float64."""
        return sum((factor.gram() for factor in self.finite), np.zeros(()))

    def product(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the inner products [L] of the gradients with a vector [d], computed in the vector's precision."""
        out, start = np.zeros(()), 0
        for factor in self.finite:
            part = vector[..., start : start + factor.size]
            out = out + factor.product(part.reshape(factor.shape(vector.shape[:-1])))
            start += factor.size
        return out

    def part(self, number: int) -> FactoredGradients:
        """Return the gradients of one tensor. An example that is not finite in some tensor is zero in all."""
        return FactoredGradients([self.finite[number]])

    @property
    def _leading(self) -> tuple[int, ...]:
        """The axes of the models."""
        sides = [side for factor in self.factors for side in (factor.left, factor.right) if side is not None]
        return np.broadcast_shapes(*(side.shape[:-2] for side in sides))


def _squares(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.einsum("...i,...i->...", rows, rows, dtype=np.float64)


def _gram(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = rows.astype(np.float64)
    return exact @ exact.swapaxes(-1, -2)


def _only(rows: NDArray[np.float32] | None, good: NDArray[np.bool_]) -> NDArray[np.float32] | None:
    """Return the rows [..., L, m], with zeros for the examples that are not `good`."""
    return None if rows is None else np.where(good[..., None], rows, np.float32(0))
