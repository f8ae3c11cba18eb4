"""Exact output laws: sampling from them, and the likelihood of an output under them.

A text is a sequence of units. Each unit has one law row: a distribution over the mechanism's outputs. For context-free
mechanisms a row belongs to a word, for contextual mechanisms to a (text, position) pair. Rows are computed on demand in
chunks and are not stored, since with a vocabulary of 30,000 words they would take gigabytes. A publication caches the
integer weights of the rows that it draws from, within a limit (`epsilometer.core.exact_samplers.WeightCache`).

If a row does not sum to one, a LawError is raised. Losses computed from an invalid law would be wrong, but look exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import LawError
from epsilometer.core.exact_samplers import WeightCache, Weights
from epsilometer.core.guarantees import at_budget
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise

Rows = Callable[[NDArray[np.integer], Sequence[float]], Iterator[NDArray[np.float64]]]
Entries = Callable[[NDArray[np.integer], Sequence[NDArray[np.integer]], Sequence[float]], Iterable[NDArray[np.float64]]]
Draw = Callable[
    [NDArray[np.integer], NDArray[np.integer], Sequence[float], Sequence[NDArray[np.float64]]],
    Iterable[NDArray[np.integer]],
]
_CELLS = 1 << 21  # law entries at a time: 16 MB per epsilon; the C library reuses blocks of up to 32 MB
_CACHE = 1 << 16  # entries at a time, so that they stay in the processor's cache
_NOTHING = -700.0  # nats: e^-700 adds nothing to a total of one, and smaller exponentials take eight times as long
_ROUNDING = 1e-6  # tolerance in nats: between a row's total and one, and between an entry and its row
_COMPARED = 4  # rows computed in full, to check each call of `entries`


@dataclass(frozen=True)
class Laws:
    """The laws of the units of some texts.

    rows:      for each text, the number of the law row of each unit.
    outputs:   the number of outputs; every row has the same outputs.
    log_probabilities: (rows [n], epsilons) -> for each epsilon in turn, natural logarithms of probabilities
               [n, outputs]; each row's probabilities sum to one. Parts that do not depend on epsilon are computed once
               per call.
    entries:   (rows [n], outputs [n] for each epsilon, epsilons) -> for each epsilon in turn, the log-probabilities [n]
               of these outputs alone. Set it if this costs less than whole rows.
    draw:      (rows [n], places [m] in `rows`, ascending, epsilons, uniforms [m] for each epsilon) -> for each epsilon
               in turn, one output per place by inverse CDF, [m]. Set it if laws stay on the device that computes them.
    table:     a cache of the weights of rows, by (row, epsilon), for publications. All `Laws` of a mechanism share the
               cache, so set it only if a row number means the same row in all of them.

    Rows and entries are checked at every use. LawError is raised for a table of rows of the wrong shape, for
    probabilities whose sum differs from one by more than 1e-6 nats, and for an entry that differs from its row. The
    error names the epsilon, and the number of the unit and the text. Each call of `entries` is compared with at most
    four rows.
    """

    rows: Ragged
    outputs: int
    log_probabilities: Rows
    entries: Entries | None = None
    draw: Draw | None = None
    table: WeightCache | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "log_probabilities", partial(self._checked_rows, self.log_probabilities))
        if self.entries is not None:
            object.__setattr__(self, "entries", partial(self._checked_entries, self.entries))

    def chunk(self) -> int:
        """Return the number of rows to request at a time."""
        return max(1, _CELLS // self.outputs)

    def _checked_rows(
        self, compute: Rows, rows: NDArray[np.integer], epsilons: Sequence[float]
    ) -> Iterator[NDArray[np.float64]]:
        for table, epsilon in zip(compute(rows, epsilons), epsilons, strict=True):
            if table.shape != (len(rows), self.outputs):
                raise LawError(
                    f"laws must return a row per unit and a column per output, {(len(rows), self.outputs)}, got a "
                    f"table of {table.shape}",
                    "EPS-C041",
                )
            totals = _totals(table)
            with np.errstate(divide="ignore"):
                wrong = np.flatnonzero(~(np.abs(np.log(totals)) <= _ROUNDING))
            if len(wrong):
                total = totals[wrong[0]].round(9)
                raise LawError(
                    f"the probabilities of {self._place(rows[wrong[0]], epsilon)} sum to {total:.9g}, not "
                    "to 1; subtract the log of the sum of their exponentials from `log_probabilities`",
                    "EPS-C042",
                )
            yield table

    def _checked_entries(
        self,
        compute: Entries,
        rows: NDArray[np.integer],
        outputs: Sequence[NDArray[np.integer]],
        epsilons: Sequence[float],
    ) -> Iterator[NDArray[np.float64]]:
        first = np.full(rows.max(initial=-1) + 1, -1)
        first[rows[::-1]] = np.arange(len(rows))[::-1]  # if a row repeats, its first place is assigned last
        distinct = np.flatnonzero(first >= 0)
        some = np.linspace(0, len(distinct) - 1, min(_COMPARED, len(distinct))).astype(np.int64)
        tables = self.log_probabilities(distinct[some], epsilons)
        parts = zip(compute(rows, outputs, epsilons), tables, outputs, epsilons, strict=True)
        for values, table, output, epsilon in parts:
            at = first[distinct[some]]
            expected = table[np.arange(len(some)), output[at]]
            with np.errstate(invalid="ignore"):
                alike = (values[at] == expected) | (np.abs(values[at] - expected) <= _ROUNDING)
            wrong = np.union1d(np.flatnonzero(~(values <= _ROUNDING)), at[~alike])
            if len(wrong):
                raise LawError(
                    f"`entries` states {values[wrong[0]]:g} for an output of {self._place(rows[wrong[0]], epsilon)}, "
                    "which is not a log-probability or differs from `log_probabilities`; leave `entries` out, or make "
                    "both agree",
                    "EPS-C043",
                )
            yield values

    def _place(self, row: int, epsilon: float) -> str:
        """Return the number of the first unit with this law row, its text's number, and the epsilon; never the text."""
        (units,) = np.nonzero(self.rows.values == row)
        at = at_budget(epsilon)
        if not len(units):
            return f"law row {row}{at}"
        text = int(np.searchsorted(self.rows.offsets, units[0], side="right")) - 1
        return f"unit {units[0] - self.rows.offsets[text]} of input {text} (counted from 0){at}"


def sample(laws: Laws, source: NDArray[np.integer], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Ragged]:
    """For each trial t and epsilon, draw every unit of the text source[t], by inverse CDF from one uniform per unit.

    Streams of a publication draw exactly instead (`epsilometer.core.exact_samplers`).
    Returns one Ragged [trials] of output numbers for each epsilon.
    """
    wanted = laws.rows.take(source)
    if any(noise.exact is not None for noise in noises):
        return _release(laws, wanted, epsilons, noises)
    lengths = wanted.lengths
    uniforms = [noise.ragged(lengths)[:, 0] for noise in noises]
    outputs = [np.empty(len(wanted.values), np.int32) for _ in epsilons]
    for rows, members, places in by_row(wanted.values, laws.chunk()):
        if laws.draw is not None:
            at = np.repeat(np.arange(len(rows)), np.diff(places))
            for out, units in zip(outputs, laws.draw(rows, at, epsilons, [u[members] for u in uniforms]), strict=True):
                out[members] = units
            continue
        groups = [members[places[i] : places[i + 1]] for i in range(len(rows))]
        log_laws = laws.log_probabilities(rows, epsilons)
        for out, uniform, log_p in zip(outputs, uniforms, log_laws, strict=True):
            for part in in_cache(log_p):
                cdf = np.cumsum(np.exp(log_p[part]), axis=1)
                cdf /= cdf[:, -1:]
                for row, units in zip(cdf, groups[part], strict=True):
                    out[units] = np.searchsorted(row, uniform[units], side="right")
    return [Ragged(np.minimum(out, laws.outputs - 1), wanted.offsets) for out in outputs]


def _release(laws: Laws, wanted: Ragged, epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Ragged]:
    """Draw every unit exactly. A row's weights come from the laws' cache if they are cached there."""
    outputs = [np.empty(len(wanted.values), np.int32) for _ in epsilons]
    for rows, members, places in by_row(wanted.values, laws.chunk()):
        for out, noise, weights in zip(outputs, noises, _weights(laws, rows, epsilons), strict=True):
            assert noise.exact is not None, "a publication's streams are all the operating system's"
            out[members] = noise.exact.choose_each([weights[row] for row in rows.tolist()], np.diff(places).tolist())
    return [Ragged(out, wanted.offsets) for out in outputs]


def _weights(laws: Laws, rows: NDArray[np.integer], epsilons: Sequence[float]) -> list[dict[int, Weights]]:
    """For each epsilon, return the weights of these rows, by row. Missing weights are computed and cached."""
    numbers, table = rows.tolist(), WeightCache(0) if laws.table is None else laws.table
    entries = [{row: table.get((row, epsilon)) for row in numbers} for epsilon in epsilons]
    weights = [{row: entry for row, entry in each.items() if entry is not None} for each in entries]
    new = [row for row in numbers if not all(row in each for each in weights)]
    if not new:
        return weights
    for each, epsilon, log_p in zip(weights, epsilons, laws.log_probabilities(np.array(new), epsilons), strict=True):
        for row, logarithms in zip(new, log_p, strict=True):
            if row not in each:
                each[row] = Weights.of(logarithms)
                table.put((row, epsilon), each[row])
    return weights


def log_likelihood(
    laws: Laws, texts: NDArray[np.integer], units: Sequence[Ragged], epsilons: Sequence[float]
) -> list[NDArray[np.float64]]:
    """For each epsilon e, return log P(units[e][i] | texts[i]), [n]; minus infinity if lengths differ.

    units: n rows of outputs for each epsilon. Row i has the same number of units at every epsilon.
    """
    rows = laws.rows.take(texts)
    fits = np.flatnonzero(rows.lengths == units[0].lengths)
    rows, outputs = rows.take(fits), [u.take(fits).values for u in units]
    if laws.entries is not None:
        values = list(laws.entries(rows.values, outputs, epsilons))
    else:
        values = _looked_up(laws, rows.values, outputs, epsilons)
    totals = []
    for value in values:
        total = np.full(len(texts), -np.inf)
        # Impossible units, with -inf, are counted separately, so that the sums stay finite.
        possible = np.isfinite(value)
        number = rows.row_numbers
        summed = np.bincount(number, np.where(possible, value, 0.0), minlength=len(fits))
        impossible = np.bincount(number, ~possible, minlength=len(fits)) > 0
        total[fits] = np.where(impossible, -np.inf, summed)
        totals.append(total)
    return totals


def _looked_up(
    laws: Laws, rows: NDArray[np.integer], outputs: Sequence[NDArray[np.integer]], epsilons: Sequence[float]
) -> list[NDArray[np.float64]]:
    values = [np.empty(len(rows)) for _ in epsilons]
    for chunk, members, places in by_row(rows, laws.chunk()):
        at = np.repeat(np.arange(len(chunk)), np.diff(places))
        for value, output, log_p in zip(values, outputs, laws.log_probabilities(chunk, epsilons), strict=True):
            value[members] = log_p[at, output[members]]
    return values


def log_softmax(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln P [rows, outputs], from logarithms that are known up to a constant per row.

    Calling scipy's function on blocks of rows that fit in the processor's cache gives the same bits in less time.
    """
    from scipy.special import log_softmax as of_rows  # takes 0.3 s to load; checks of settings never need it

    out = np.empty(weights.shape)
    for rows in in_cache(weights):
        out[rows] = of_rows(weights[rows], axis=1)
    return out


def in_cache(table: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices of the rows of a table [rows, outputs] that fit in the processor's cache."""
    step = max(1, _CACHE // max(1, table.shape[1]))
    return (slice(start, start + step) for start in range(0, len(table), step))


def _totals(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row's probabilities, [rows]. table: their logarithms, [rows, outputs]."""
    totals = np.empty(len(table))
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in in_cache(table):
            np.exp(np.maximum(table[rows], _NOTHING), dtype=np.float64).sum(axis=1, out=totals[rows])
    return totals


def by_row(
    values: NDArray[np.integer], chunk: int
) -> Iterator[tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield chunks: distinct values [m], their places in `values` grouped by value, and the groups' borders [m + 1]."""
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    borders = np.append(first, len(order))
    for start in range(0, len(distinct), chunk):
        stop = min(start + chunk, len(distinct))
        places = borders[start : stop + 1]
        yield distinct[start:stop], order[places[0] : places[-1]], places - places[0]
