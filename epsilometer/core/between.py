"""Importance sampling between the output laws P and P' of two texts, if there are too many outputs to list.

Let the draws y come from a law m that is positive wherever both P and P' are. At any level in nats,

    E_m[sqrt(P P') / m * e^(-|L - level| / 2)] = e^(-level / 2) sum over y of min(P, e^level P'),    L = ln P / P'.

The right side is e^(-level / 2) (1 - delta(level)). At level 0 it is the overlap of P and P'.
`auditing/exact_loss/importance.py` uses draws to compute bounds on the mean E_m.

`tilted` is for texts whose units are privatised independently. It draws unit i from the law proportional to
sqrt(P_i P'_i). So sqrt(P P') / m is the same for every draw: the product over i of rho_i = sum sqrt(P_i P'_i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.laws import Laws, by_row
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise


@dataclass(frozen=True)
class Between:
    """n draws, each for a pair of texts. Every field is float64 [n], in nats.

    log_rho:    ln(sqrt(P P') / m) at the draw; minus infinity if P or P' is 0 at the draw.
    loss:       L at the draw. From P' to P, the draw has the loss -L and the same log_rho.
    log_bound:  an upper bound on log_rho - |L - level| / 2 for all draws between these two texts and all levels; 0 if
                no smaller bound is known.
    """

    log_rho: NDArray[np.float64]
    loss: NDArray[np.float64]
    log_bound: NDArray[np.float64]


def tilted(laws: Laws, pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> tuple[Ragged, Between]:
    """Return one draw for each pair of texts, as units and as `Between`. Each unit takes one uniform (inverse CDF).

    pairs: [n, 2] text numbers. Two texts with different numbers of units get no draw, and a log_rho of minus
    infinity.
    """
    first, second = (laws.rows.take(pairs[:, side]) for side in (0, 1))
    comparable = first.lengths == second.lengths
    lengths = np.where(comparable, first.lengths, 0)
    a, b = (rows.values[comparable[rows.row_numbers]].astype(np.int64) for rows in (first, second))
    uniforms = noise.ragged(lengths)[:, 0]
    outputs = np.zeros(len(a), np.int32)
    log_rho, loss = np.zeros((2, len(a)))
    count = int(b.max(initial=0)) + 1
    for keys, members, places in by_row(a * count + b, max(1, laws.chunk() // 2)):
        rows, at = np.unique([keys // count, keys % count], return_inverse=True)
        (log_p,) = laws.log_probabilities(rows, [epsilon])
        for number, (left, right) in enumerate(at.reshape(2, -1).T):
            own = members[places[number] : places[number + 1]]
            outputs[own], log_rho[own], loss[own] = tilted_unit(log_p[left], log_p[right], uniforms[own])
    units = Ragged.from_lengths(outputs, lengths)
    total, whole = (np.bincount(units.row_numbers, each, len(pairs)).astype(float) for each in (log_rho, loss))
    total[~comparable] = -np.inf
    return units, Between(total, whole, total)


def tilted_unit(
    first: NDArray[np.float64], second: NDArray[np.float64], uniforms: NDArray[np.float64]
) -> tuple[NDArray[np.integer], float, NDArray[np.float64]]:
    """Return n draws between two laws, given as log-probabilities [outputs]: outputs [n], ln rho, losses [n].

    rho: the sum of sqrt(P P') over all outputs.
    """
    half = (first + second) / 2
    peak = half.max()
    if np.isneginf(peak):  # no output is possible under both
        return np.zeros(len(uniforms), np.int64), -np.inf, np.zeros(len(uniforms))
    cdf = np.cumsum(np.exp(half - peak))
    # A uniform times the total cdf[-1] may be rounded up to this total, where the search would find no output.
    at = np.minimum(uniforms * cdf[-1], np.nextafter(cdf[-1], 0))
    outputs = np.searchsorted(cdf, at, side="right")
    return outputs, min(float(peak + np.log(cdf[-1])), 0.0), first[outputs] - second[outputs]
