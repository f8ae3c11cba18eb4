"""The exact pure loss of every pair of texts, and bounds on the pair's guess loss.

For two texts with n units each, in nats,

    pure loss = sum_i A[x_i, x'_i],    ln rho = sum_i B[x_i, x'_i],    (1 - sqrt(1 - rho^2)) / 2 <= e <= rho / 2,

where e is the Bayes error and rho the Bhattacharyya coefficient (Kailath 1967, "The divergence and Bhattacharyya
distance measures in signal selection"). A and B compare two unit laws (`unit_laws`). The largest pure loss over the
pairs of a corpus is its relative epsilon (Lu, Magdon-Ismail, Wei and Zikas, "Eureka", S&P 2024): privacy relative to a
finite set of inputs. If there are too many laws to compare them all, the relative epsilon has only a lower bound. This
bound is the largest pure loss over the pairs of the longest texts, and over the pairs that were compared for their
guess loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.exact_loss.bracket import Bracket, guess_losses
from epsilometer.auditing.exact_loss.losses import Request
from epsilometer.auditing.exact_loss.unit_laws import UnitLaws, largest_losses, log_laws, unit_laws
from epsilometer.core.errors import UserError
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism
from epsilometer.text.words import words

Array = NDArray[np.float64]
_ENTRIES = 1e11  # largest (pairs of laws) x (outputs) to compare: a minute or two per budget
_QUICK = 2e8  # largest (pairs of laws) x (outputs) that takes tenths of a second
_LONGEST = 2000  # if there are too many laws, the longest texts with this many units in all are compared
_CELLS = 1 << 22  # numbers in memory at a time

Block = tuple[NDArray[np.int64], NDArray[np.int64], Array]  # indices of texts [n] and [m], figures [n, m]

_PAIRS = {"x": pl.Int64, "other": pl.Int64} | dict.fromkeys(("pure_loss", "guess_low", "guess_high"), pl.Float64)

ALL_PAIRS, LOWER_BOUND = "all pairs", "lower bound"


@dataclass(frozen=True)
class Relative:
    """The largest pure loss between two texts, in nats.

    pair:    indices of the two texts; the witness is likelier under the first text. None if no pair has a loss above 0.
    witness: the output with this loss, its units as text; None if outputs have no names or the texts differ in length.
    method:  ALL_PAIRS or LOWER_BOUND.
    """

    loss: float
    pair: tuple[int, int] | None = None
    witness: str | None = None
    method: str = ALL_PAIRS


def relative(mechanism: Mechanism, texts: Sequence[str], epsilons: Sequence[float]) -> list[tuple[Relative, Relative]]:
    """Return for each budget the relative epsilon over all pairs of texts, and over pairs with equally many words.

    If there are too many laws to compare them all, only the longest texts are compared: losses add up over units, so
    long texts have the largest losses.
    """
    laws = cast(HasLaws, mechanism).laws(texts)
    rows = np.unique(laws.rows.values)
    counts = np.array([len(words(text)) for text in texts])
    by_budget: Sequence[Iterable[Block]]
    if len(rows) ** 2 * laws.outputs <= _ENTRIES:
        compared = unit_laws(laws, rows, epsilons, overlaps=False)
        method, by_budget = ALL_PAIRS, [pure_losses(laws, units) for units in compared]
    else:
        longest = list(_of_longest(laws, epsilons))
        method, by_budget = LOWER_BOUND, [[blocks[number] for blocks in longest] for number in range(len(epsilons))]
    apart = _unlike(laws)
    witnessed = []
    for epsilon, blocks in zip(epsilons, by_budget, strict=True):
        every, equal = Relative(0.0, method=method), Relative(0.0, method=method)
        for first, second, loss in blocks:
            every = _larger(every, first, second, loss)
            equal = _larger(equal, first, second, np.where(counts[first][:, None] == counts[second], loss, 0.0))
        if apart is not None:
            every = Relative(math.inf, apart)
        every, equal = (_with_witness(mechanism, laws, epsilon, bound) for bound in (every, equal))
        witnessed.append((every, equal))
    return witnessed


def is_quick(mechanism: Mechanism, texts: Sequence[str]) -> bool:
    """Return True if the laws of all pairs of texts can be compared in tenths of a second per budget."""
    laws = cast(HasLaws, mechanism).laws(texts)
    return len(np.unique(laws.rows.values)) ** 2 * laws.outputs <= _QUICK


def raised(bound: Relative, request: Request, epsilon: float, compared: tuple[NDArray[np.int64], Array]) -> Relative:
    """Return the bound; if it is only a lower bound, raise it to the largest pure loss of the compared pairs.

    compared: the pairs [n, 2], and their pure losses [n], each the larger of both directions.
    """
    pairs, pure = compared
    if bound.method != LOWER_BOUND or pure.max() <= bound.loss:
        return bound
    x, other = pairs[int(pure.argmax())].tolist()
    larger = Relative(float(pure.max()), (x, other), None, LOWER_BOUND)
    laws = cast(HasLaws, request.mechanism).laws(request.texts)
    return _with_witness(request.mechanism, laws, epsilon, larger)


def _of_longest(laws: Laws, epsilons: Sequence[float]) -> Iterator[list[Block]]:
    """Yield the blocks of all budgets, as in `pure_losses`, for each length (in units) of the longest texts."""
    left = _LONGEST
    for length in np.unique(laws.rows.lengths)[::-1].tolist():
        texts = np.flatnonzero(laws.rows.lengths == length)[: left // max(1, length)]
        if len(texts) < 2:
            continue
        left -= len(texts) * length
        totals = np.zeros((len(epsilons), len(texts), len(texts)))
        for position in range(length):
            rows, place = np.unique(laws.rows.values[laws.rows.offsets[texts] + position], return_inverse=True)
            for total, law in zip(totals, log_laws(laws, rows, epsilons), strict=True):
                total += largest_losses(law, law)[0][place[:, None], place]
        yield [(texts, texts, total) for total in totals]


def _larger(best: Relative, first: NDArray[np.int64], second: NDArray[np.int64], loss: Array) -> Relative:
    if loss.max(initial=0.0) <= best.loss:
        return best
    i, j = np.unravel_index(loss.argmax(), loss.shape)
    return Relative(float(loss[i, j]), (int(first[i]), int(second[j])), None, best.method)


def every_pair(mechanism: Mechanism, texts: Sequence[str], epsilons: Sequence[float]) -> Iterator[pl.DataFrame]:
    """Yield for each budget a table with a row for each pair of texts with equally many units.

    Columns: x and other (indices of the texts), pure_loss (the larger of both directions), and guess_low and guess_high
    (bounds of the guess loss). Losses are in nats. Raises UserError if there are too many laws to compare them all.
    """
    laws = cast(HasLaws, mechanism).laws(texts)
    rows = np.unique(laws.rows.values)
    if len(rows) ** 2 * laws.outputs > _ENTRIES:
        raise UserError(
            f"{len(rows):,} laws of units over {laws.outputs:,} outputs are too many to compare all pairs; give fewer "
            "texts, or use exact_loss, which compares chosen pairs",
            "EPS-A075",
        )
    for units in unit_laws(laws, rows, epsilons):
        turned = _summed(laws, rows, units.largest.T)
        parts = []
        for unit in zip(pure_losses(laws, units), turned, error_bounds(laws, units), strict=True):
            (first, second, loss), (_, _, other_way), (_, _, log_error) = unit
            guess, once = guess_losses(log_error), first[:, None] < second
            largest = np.maximum(loss, other_way)  # an upper bound on the guess loss
            x, other = (np.broadcast_to(number, loss.shape)[once] for number in (first[:, None], second))
            figures = (largest, np.minimum(guess.low, largest), np.minimum(guess.high, largest))
            parts.append(pl.DataFrame([x, other, *(figure[once] for figure in figures)], schema=dict(_PAIRS)))
        yield pl.concat(parts)


def pure_losses(laws: Laws, units: UnitLaws) -> Iterator[Block]:
    """Yield all ordered pairs of texts with equally many units in blocks: texts [n], texts [m], pure losses [n, m]."""
    return _summed(laws, units.rows, units.largest)


def error_bounds(laws: Laws, units: UnitLaws) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Bracket[Array]]]:
    """Yield blocks like `pure_losses`, with bounds [n, m] on the logarithm of each pair's Bayes error."""
    for first, second, log_rho in _summed(laws, units.rows, units.log_overlap):
        rounding = np.finfo(float).eps * laws.outputs * (1 + laws.rows.lengths[first][:, None])
        high, low = np.minimum(log_rho + rounding, 0.0), log_rho - rounding
        # 1 - sqrt(1 - rho^2) = rho^2 / (1 + sqrt(1 - rho^2)), which stays exact where rho is small
        low = 2 * low - np.log1p(np.sqrt(-np.expm1(2 * low))) - np.log(2)
        yield first, second, Bracket(low, high - np.log(2))


def _summed(laws: Laws, rows: NDArray[np.int64], of_units: Array) -> Iterator[Block]:
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
    """Return two texts with different numbers of units, or None."""
    other = np.flatnonzero(laws.rows.lengths != laws.rows.lengths[0])
    return (0, int(other[0])) if len(other) else None


def _with_witness(mechanism: Mechanism, laws: Laws, epsilon: float, bound: Relative) -> Relative:
    """Return `bound` with its witness. The first text of its pair is the text under which the witness is likelier."""
    if bound.pair is None or not isinstance(mechanism, HasInputs):
        return bound
    first, second = (laws.rows.row(text) for text in bound.pair)
    if len(first) != len(second):
        return bound
    rows = np.unique([first, second])
    (law,) = log_laws(laws, rows, [epsilon])
    places, names = (np.searchsorted(rows, first), np.searchsorted(rows, second)), mechanism.output_texts
    both = []
    for ways in (places, places[::-1]):
        total, outputs = 0.0, []
        for a, b in zip(*ways, strict=True):
            possible = np.flatnonzero(np.isfinite(law[a]))
            loss = law[a, possible] - law[b, possible]
            total += float(loss.max())
            outputs.append(names[int(possible[loss.argmax()])])
        both.append((total, " ".join(outputs)))
    turned = both[1][0] > both[0][0]
    return Relative(bound.loss, bound.pair[::-1] if turned else bound.pair, both[turned][1], bound.method)
