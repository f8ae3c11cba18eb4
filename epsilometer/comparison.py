"""Which of two mechanisms leaks less, on the same trials: McNemar's exact test (McNemar 1947).

Both were attacked on the same candidate sets with the same targets, so only the trials in which the adversary named the
source of one rewrite and not of the other tell them apart. If both leak alike, each of these is as likely one way as
the other: a fair coin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest


@dataclass(frozen=True)
class Comparison:
    """first_only, second_only: trials in which the adversary was right about the one alone; p_value: two-sided."""

    trials: int
    first_only: int
    second_only: int
    p_value: float

    def sentence(self, first: str, second: str, alpha: float) -> str:
        """`A leaks less than B, p = 0.003.`, or that there is no evidence of a difference."""
        if self.p_value > alpha:
            return f"no evidence that {first} and {second} leak differently, p = {self.p_value:.2g}"
        less, more = (first, second) if self.first_only < self.second_only else (second, first)
        return f"{less} leaks less than {more}, p = {self.p_value:.2g}"


def compare(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Comparison:
    """first, second: [trials], whether the adversary named the source, in the same trials."""
    if len(first) != len(second):
        raise ValueError(f"a paired comparison needs the same trials, got {len(first)} and {len(second)}")
    one, other = int((first & ~second).sum()), int((second & ~first).sum())
    p = float(binomtest(one, one + other).pvalue) if one + other else 1.0
    return Comparison(len(first), one, other, p)
