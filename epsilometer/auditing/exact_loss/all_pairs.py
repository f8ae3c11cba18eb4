"""All pairs of texts, exactly: the pure loss of each, with its witness, and bounds of its guess loss.

Of two texts with n units each, in nats,

    pure loss = sum_i A[x_i, x'_i],    ln rho = sum_i B[x_i, x'_i],    (1 - sqrt(1 - rho^2)) / 2 <= e <= rho / 2,

e the Bayes error (Kailath 1967, "The divergence and Bhattacharyya distance measures in signal selection"); A and B are
the unit laws' (`unit_laws`). The largest pure loss over the pairs of a corpus is its relative epsilon (Lu,
Magdon-Ismail, Wei and Zikas, "Eureka", S&P 2024): privacy relative to a finite set of inputs. Where the laws are too
many to compare them all, the largest over the longest texts and the compared pairs is a lower bound of it.
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
_ENTRIES = 1e11  # pairs of laws times outputs that are compared: a minute or two a budget
_LONGEST = 2000  # units of the longest texts whose laws are compared where not all can be
_CELLS = 1 << 22  # look-ups in memory at a time

Block = tuple[NDArray[np.int64], NDArray[np.int64], Array]  # texts [n], texts [m], a figure of each pair [n, m]

_PAIRS = {"x": pl.Int64, "other": pl.Int64} | dict.fromkeys(("pure_loss", "guess_low", "guess_high"), pl.Float64)

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


def relative(mechanism: Mechanism, texts: Sequence[str], epsilons: Sequence[float]) -> list[tuple[Relative, Relative]]:
    """For each budget the relative epsilon over all pairs of texts, and over those of equally many words.

    Where there are too many laws to compare them all, over the longest texts alone: losses add up over units.
    """
    laws = cast(HasLaws, mechanism).laws(texts)
    rows = np.unique(laws.rows.values)
    counts = np.array([len(words(text)) for text in texts])
    by_budget: Sequence[Iterable[Block]]
    if len(rows) ** 2 * laws.outputs <= _ENTRIES:
        method, by_budget = ALL_PAIRS, [pure_losses(laws, units) for units in unit_laws(laws, rows, epsilons)]
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
        every, equal = (_with_witness(mechanism, laws, epsilon, one) for one in (every, equal))
        witnessed.append((every, equal))
    return witnessed


def raised(known: Relative, request: Request, epsilon: float, compared: tuple[NDArray[np.int64], Array]) -> Relative:
    """A lower bound raised to the largest of the pairs that were compared: [n, 2], and [n] pure losses, either way."""
    pairs, pure = compared
    if known.method != LOWER_BOUND or pure.max() <= known.loss:
        return known
    x, other = pairs[int(pure.argmax())].tolist()
    larger = Relative(float(pure.max()), (x, other), None, LOWER_BOUND)
    laws = cast(HasLaws, request.mechanism).laws(request.texts)
    return _with_witness(request.mechanism, laws, epsilon, larger)


def _of_longest(laws: Laws, epsilons: Sequence[float]) -> Iterator[list[Block]]:
    """As `pure_losses`, for each budget: the pairs of equal length among the longest texts, unit after unit."""
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
    """For each budget a row a pair of texts of as many units: x and other (their numbers), and losses in nats.

    pure_loss is the larger of both directions; the guess loss lies between guess_low and guess_high. Raises UserError
    where there are too many laws to compare them all.
    """
    laws = cast(HasLaws, mechanism).laws(texts)
    rows = np.unique(laws.rows.values)
    if len(rows) ** 2 * laws.outputs > _ENTRIES:
        raise UserError(
            f"{len(rows):,} laws of units over {laws.outputs:,} outputs are too many to compare each with each; take "
            "fewer texts, or exact_loss, which compares chosen pairs"
        )
    for units in unit_laws(laws, rows, epsilons):
        turned = _summed(laws, rows, units.largest.T)
        parts = []
        for one in zip(pure_losses(laws, units), turned, error_bounds(laws, units), strict=True):
            (first, second, loss), (_, _, other_way), (_, _, log_error) = one
            guess, once = guess_losses(log_error), first[:, None] < second
            x, other = (np.broadcast_to(number, loss.shape)[once] for number in (first[:, None], second))
            figures = (np.maximum(loss, other_way), guess.low, guess.high)
            parts.append(pl.DataFrame([x, other, *(figure[once] for figure in figures)], schema=dict(_PAIRS)))
        yield pl.concat(parts)


def pure_losses(laws: Laws, units: UnitLaws) -> Iterator[Block]:
    """Texts [n], texts [m] of as many units, and the pure loss [n, m] of each: all ordered pairs, in blocks."""
    return _summed(laws, units.rows, units.largest)


def error_bounds(laws: Laws, units: UnitLaws) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Bracket[Array]]]:
    """As `pure_losses`: the logarithm of each pair's Bayes error lies between these, [n, m] each."""
    for first, second, log_rho in _summed(laws, units.rows, units.log_overlap):
        # 1 - sqrt(1 - rho^2) = rho^2 / (1 + sqrt(1 - rho^2)), which stays exact where rho is small
        low = 2 * log_rho - np.log1p(np.sqrt(-np.expm1(2 * log_rho))) - np.log(2)
        yield first, second, Bracket(low, log_rho - np.log(2))


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
    """Two texts of different numbers of units, if there are."""
    other = np.flatnonzero(laws.rows.lengths != laws.rows.lengths[0])
    return (0, int(other[0])) if len(other) else None


def _with_witness(mechanism: Mechanism, laws: Laws, epsilon: float, known: Relative) -> Relative:
    """With the output, and the texts in the order in which it is likelier under the first."""
    if known.pair is None or not isinstance(mechanism, HasInputs):
        return known
    first, second = (laws.rows.row(text) for text in known.pair)
    if len(first) != len(second):
        return known
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
    return Relative(known.loss, known.pair[::-1] if turned else known.pair, both[turned][1], known.method)
