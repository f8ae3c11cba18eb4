"""All pairs of texts, exactly: the pure loss of each, with its witness, and bounds of its guess loss.

Of two texts with n units each, in nats,

    pure loss = sum_i A[x_i, x'_i],    ln rho = sum_i B[x_i, x'_i],    (1 - sqrt(1 - rho^2)) / 2 <= e <= rho / 2,

e the Bayes error (Kailath 1967, "The divergence and Bhattacharyya distance measures in signal selection"); A and B are
the unit laws' (`unit_laws`). The largest pure loss over the pairs of a corpus is its relative epsilon (Lu,
Magdon-Ismail, Wei and Zikas, "Eureka", S&P 2024): privacy relative to a finite set of inputs. Where the laws are too
many to compare them all, the largest over some pairs is a lower bound of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.unit_laws import UnitLaws, unit_laws
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism
from epsilometer.text.words import words

Array = NDArray[np.float64]
_ENTRIES = 1e11  # pairs of laws times outputs that are compared: a minute or two a budget
_CELLS = 1 << 22  # look-ups in memory at a time

ALL_PAIRS, LOWER_BOUND = "all pairs", "lower bound"


@dataclass(frozen=True)
class Relative:
    """The largest pure loss between two texts, in nats.

    pair:    numbers of the texts, the output being the likelier under the first; None without a pair.
    witness: that output, its units in words; None where no output has a name, or texts differ in length.
    method:  ALL_PAIRS or LOWER_BOUND.
    """

    loss: float
    pair: tuple[int, int] | None = None
    witness: str | None = None
    method: str = ALL_PAIRS


def relative(
    mechanism: Mechanism, texts: Sequence[str], epsilons: Sequence[float]
) -> list[tuple[Relative, Relative]] | None:
    """For each budget the relative epsilon over all pairs of texts, and over those of equally many words.

    None where there are too many laws to compare them all.
    """
    laws = cast(HasLaws, mechanism).laws(texts)
    rows = np.unique(laws.rows.values)
    if len(rows) ** 2 * laws.outputs > _ENTRIES:
        return None
    counts = np.array([len(words(text)) for text in texts])
    found = []
    for epsilon, units in zip(epsilons, unit_laws(laws, rows, epsilons), strict=True):
        every, equal = Relative(0.0), Relative(0.0)
        for first, second, loss in pure_losses(laws, units):
            every = _larger(every, first, second, loss)
            equal = _larger(equal, first, second, np.where(counts[first][:, None] == counts[second], loss, 0.0))
        if (apart := _unlike(laws)) is not None:
            every = Relative(math.inf, apart)
        found.append((_with_witness(mechanism, laws, epsilon, every), _with_witness(mechanism, laws, epsilon, equal)))
    return found


def largest_of(
    mechanism: Mechanism, texts: Sequence[str], epsilon: float, pairs: NDArray[np.int64], pure: Array
) -> Relative:
    """The largest pure loss of some pairs [n, 2], pure [n] the larger of both directions: a lower bound."""
    laws, pair = cast(HasLaws, mechanism).laws(texts), pairs[int(pure.argmax())]
    found = Relative(float(pure.max()), (int(pair[0]), int(pair[1])), None, LOWER_BOUND)
    return _with_witness(mechanism, laws, epsilon, found)


def _larger(best: Relative, first: NDArray[np.int64], second: NDArray[np.int64], loss: Array) -> Relative:
    if loss.max(initial=0.0) <= best.loss:
        return best
    i, j = np.unravel_index(loss.argmax(), loss.shape)
    return Relative(float(loss[i, j]), (int(first[i]), int(second[j])))


def pure_losses(laws: Laws, units: UnitLaws) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Array]]:
    """Texts [n], texts [m] of as many units, and the pure loss [n, m] of each: all ordered pairs, in blocks."""
    return _summed(laws, units.rows, units.largest)


def error_bounds(laws: Laws, units: UnitLaws) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Bracket[Array]]]:
    """As `pure_losses`: the logarithm of each pair's Bayes error lies between these, [n, m] each."""
    for first, second, log_rho in _summed(laws, units.rows, units.log_overlap):
        # 1 - sqrt(1 - rho^2) = rho^2 / (1 + sqrt(1 - rho^2)), which stays exact where rho is small
        low = 2 * log_rho - np.log1p(np.sqrt(-np.expm1(2 * log_rho))) - np.log(2)
        yield first, second, Bracket(low, log_rho - np.log(2))


def _summed(
    laws: Laws, rows: NDArray[np.int64], of_units: Array
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Array]]:
    place, lengths = np.searchsorted(rows, laws.rows.values), laws.rows.lengths
    for length in np.unique(lengths):
        texts = np.flatnonzero(lengths == length)
        units = place[laws.rows.offsets[texts][:, None] + np.arange(length)]
        step = max(1, _CELLS // len(texts))
        for start in range(0, len(texts), step):
            total = np.zeros((len(texts[start : start + step]), len(texts)))
            for position in units.T:
                total += of_units[position[start : start + step, None], position]
            yield texts[start : start + step], texts, total


def _unlike(laws: Laws) -> tuple[int, int] | None:
    """Two texts of different numbers of units, if there are."""
    other = np.flatnonzero(laws.rows.lengths != laws.rows.lengths[0])
    return (0, int(other[0])) if len(other) else None


def _with_witness(mechanism: Mechanism, laws: Laws, epsilon: float, found: Relative) -> Relative:
    """With the output, and the texts in the order in which it is likelier under the first."""
    if found.pair is None or not isinstance(mechanism, HasInputs):
        return found
    first, second = (laws.rows.row(text) for text in found.pair)
    if len(first) != len(second):
        return found
    both = []
    for ways in ((first, second), (second, first)):
        total, outputs = 0.0, []
        for a, b in zip(*ways, strict=True):
            (law,) = laws.log_probabilities(np.array([a, b]), [epsilon])
            possible = np.flatnonzero(np.isfinite(law[0]))
            loss = law[0, possible] - law[1, possible]
            total += float(loss.max())
            outputs.append(mechanism.output_texts[int(possible[loss.argmax()])])
        both.append((total, " ".join(outputs)))
    turned = both[1][0] > both[0][0]
    return Relative(found.loss, found.pair[::-1] if turned else found.pair, both[turned][1], found.method)
