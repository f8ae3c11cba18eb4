"""A test that units follow their stated law, by counts of outputs.

`posteriors` tests a law by hits (right guesses). Hits depend only on differences between candidates, so they cannot
show that some outputs are missing or too frequent. Here draws are counted by event. An event is a set of outputs, which
may differ from law to law, and is fixed before any output is read. So every event has a probability under the law of
every draw. The kinds of events are:

- for one law (for example, of a word): one part of its outputs, which are ordered from the likeliest down and divided
  at every twentieth of the probability mass, and at 0.99 and 0.999;
- for all laws together: the outputs beyond one of these borders, in each law's own order; this detects a sampler that
  never draws rare outputs;
- for all laws together: each output with at least a fiftieth of the total expected count.

The number of draws in an event is a sum of independent Bernoulli variables. A binomial variable of the same mean has a
heavier tail at counts that differ from the mean by 1 or more (Hoeffding 1956, theorem 4), so the binomial p-value is
valid for any number of draws. Each kind of event is tested for too many and for too few draws, and these six tests
share the level evenly. Within a test, the level is divided by the number of events in which some count could be
significant (Tarone 1990).

Laws are computed only for the law rows with the most draws, up to a million entries in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betainc

from epsilometer.core.laws import Laws
from epsilometer.core.ragged import Ragged

Array = NDArray[np.float64]
_ENTRIES = 1 << 20  # largest number of law entries to test per epsilon
_PLACES = np.append(np.arange(1, 20) / 20, [0.99, 0.999])  # borders in a law's mass, the most likely outputs first
_SHARE = 0.02  # an output with this share of the total expected count is an event
_LEVEL = 1e-3  # events whose smallest possible p-value is above this level are not tested


def outputs_fit(
    laws: Laws, source: NDArray[np.integer], units: Sequence[Ragged], epsilons: Sequence[float]
) -> list[float]:
    """Return for each epsilon the p-value of the units of trials under the laws of their texts.

    source: [trials], the index of each trial's text. units: for each epsilon, the units of all trials. The p-value is 0
    if a text has more or fewer units than laws, or if an output is impossible; it is 1 without units.
    """
    rows, most = np.unique(laws.rows.values), max(1, _ENTRIES // laws.outputs)
    if len(rows) > most:
        counts = np.bincount(laws.rows.take(source).values)
        rows = np.sort(np.argsort(-counts, kind="stable")[: min(most, np.count_nonzero(counts))])
    entries = len(rows) * laws.outputs
    first = np.full(laws.rows.values.max(initial=-1) + 1, entries)  # first cell of each row, or `entries`
    first[rows] = np.arange(0, entries, laws.outputs)
    cells = Ragged(first.take(laws.rows.values), laws.rows.offsets).take(source)
    fits = [np.array_equal(ragged.offsets, cells.offsets) for ragged in units]
    if not len(rows):
        return [float(same) for same in fits]

    def draws(ragged: Ragged) -> NDArray[np.integer]:
        counts = np.bincount(cells.values + ragged.values, minlength=entries)[:entries]
        return counts.reshape(len(rows), laws.outputs)

    tables = laws.log_probabilities(rows, epsilons)
    return [
        _p_value(np.exp(log_p), draws(ragged)) if same else 0.0
        for log_p, ragged, same in zip(tables, units, fits, strict=True)
    ]


def _p_value(law: Array, counted: NDArray[np.integer]) -> float:
    """Return the p-value of the draws. law, counted: [rows, outputs], probabilities and counts."""
    came = np.nonzero(counted)
    if not (law[came] > 0).all():
        return 0.0
    place, size = _places(law), len(_PLACES) + 1
    cells = place + size * np.arange(len(law))[:, None]
    of_places = np.bincount(cells.ravel(), law.ravel(), len(law) * size).reshape(-1, size)  # [rows, places]
    draws, count = counted.sum(axis=1), int(counted.sum())
    seen = np.bincount(cells[came], counted[came], len(law) * size).astype(np.int64).reshape(-1, size)
    expected = draws @ law
    often = np.flatnonzero(expected >= _SHARE * count)
    draws_of_cells = np.repeat(draws, size)
    kinds = [
        (seen.ravel(), draws_of_cells, (draws[:, None] * of_places).ravel()),
        (_beyond(seen.sum(axis=0)), np.full(size - 1, count), _beyond(draws @ of_places)),
        (counted.sum(axis=0)[often], np.full(len(often), count), expected[often]),
    ]
    p_values = [least for kind in kinds for least in (_too_few(*kind), _too_many(*kind))]
    return min(1.0, len(p_values) * min(p_values))


def _places(law: Array) -> NDArray[np.integer]:
    """Return [rows, outputs]: for each output, the index of its part of the row's mass, which is divided at `_PLACES`.

    Parts are in descending order of probability. Very unlikely outputs, which together have at most half of the last
    part's mass, are put into that part without sorting. In a law over tens of thousands of words, nearly all outputs
    are that unlikely.
    """
    sorted_too = law > (1 - _PLACES[-1]) / 2 / law.shape[1]
    counts = sorted_too.sum(axis=1)
    if 2 * counts.max() > law.shape[1]:
        return _places_of_all(law)
    row, output = np.nonzero(sorted_too)
    at = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    likely = np.zeros((len(law), counts.max()))
    likely[row, at] = law[row, output]
    place = np.full(law.shape, len(_PLACES))
    place[row, output] = _places_of_all(likely)[row, at]
    return place


def _places_of_all(law: Array) -> NDArray[np.integer]:
    order = np.argsort(-law, axis=1)
    mass = np.take_along_axis(law, order, axis=1)
    place = np.empty(law.shape, np.int64)
    np.put_along_axis(place, order, np.searchsorted(_PLACES, np.cumsum(mass, axis=1) - mass / 2), axis=1)
    return place


def _beyond(each: NDArray[Any]) -> NDArray[Any]:
    """Return [places - 1] from [places]: for each place but the first, the sum from it to the end."""
    return np.asarray(each[::-1].cumsum()[::-1][1:])


def _too_few(successes: NDArray[np.integer], trials: NDArray[np.integer], means: Array) -> float:
    share = np.clip(means / np.maximum(trials, 1), 0.0, 1.0)
    p = np.where(successes <= means - 1, bdtr(successes, trials, share), 1.0)
    return _together(p, np.where(means >= 1, bdtr(0, trials, share), 1.0))


def _too_many(successes: NDArray[np.integer], trials: NDArray[np.integer], means: Array) -> float:
    share = np.clip(means / np.maximum(trials, 1), 0.0, 1.0)
    p = np.where(successes >= means + 1, betainc(np.maximum(successes, 1), trials - successes + 1, share), 1.0)
    return _together(p, np.where(trials >= means + 1, betainc(np.maximum(trials, 1), 1, share), 1.0))


def _together(p_values: Array, least: Array) -> float:
    """Return the smallest p-value times the number of testable events. least: [events], smallest possible p-values."""
    tests = max(1, int((least <= _LEVEL).sum()))
    able = least <= _LEVEL / tests
    return float(min(1.0, tests * p_values[able].min(initial=1.0)))
