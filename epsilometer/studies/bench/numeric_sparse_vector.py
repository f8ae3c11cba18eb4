"""Variants of the sparse vector technique that answer with numbers.

Algorithm 3 of Lyu, Su and Li (VLDB 2017) releases each noisy answer above the threshold, which reveals something about
the threshold. `parallel` combines algorithms 3 and 4. NumericalSVT (Wang, Ding, Wang, Kifer and Zhang, PLDI 2019)
answers with fresh noise. A "yes" is a query above the threshold; its place is the query's index, 0 to 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.additive import laplace_law
from epsilometer.studies.bench.densities import laplace, laplace_cdf, nodes
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Floats, Inputs, Law, either, together
from epsilometer.studies.bench.sparse_vector import EPSILON, QUERIES, Threshold, numbered, places

_STEP = 1e-4  # losses are rounded to multiples of this, in nats, to group joint outputs
_HALF = QUERIES // 2
_FAR = 30.0  # largest noise considered, in scales: larger noise has a probability of about e^-30
_CELLS = 41  # edges of cells for the larger of two noisy answers, evenly spread over the range of true answers


class Revealing:
    """Algorithm 3, which stops after one or two yeses.

    The first five queries have the same true answer, and so have the last five.
    Outputs: [n, 2 stop], the place and the noisy answer of each yes; -1 and 0 for a yes that does not occur.
    """

    def __init__(self, inputs: Inputs, threshold: Threshold) -> None:
        self.inputs, self.threshold = inputs, threshold

    def draw(self, which: int, count: int, rng: np.random.Generator) -> Floats:
        """Return `count` outputs of the algorithm on the input `which`."""
        threshold, stop = self.threshold, self.threshold.stop
        noisy = np.asarray(self.inputs[which]) + rng.laplace(scale=threshold.noise, size=(count, QUERIES))
        above = noisy >= threshold.level + rng.laplace(scale=threshold.scale, size=(count, 1))
        number = np.cumsum(above, axis=1)
        out = np.zeros((count, 2 * stop))
        for i in range(stop):
            here = above & (number == i + 1)
            some, at = here.any(axis=1), here.argmax(axis=1)
            out[:, 2 * i] = np.where(some, at, -1)
            out[:, 2 * i + 1] = np.where(some, noisy[np.arange(count), at], 0)
        return out

    def loss(self, outputs: Floats) -> Floats:
        """Return the [n] losses ln P(output | first) / P(output | other)."""
        return self._log_density(0, outputs) - self._log_density(1, outputs)

    @cached_property
    def law(self) -> Law:
        """The law of all outputs.

        Two outputs share a group if their yeses have the same places, their smallest answers have the same integration
        node, and their larger answers lie in the same cell.
        """
        return either(*(self._part(yes) for yes in places(self.threshold.stop)))

    def _part(self, yes: tuple[int, ...]) -> Law:
        """Return the part of the law with yeses at these places."""
        if not yes:
            nothing = np.tile([-1.0, 0.0], (1, self.threshold.stop))
            return Law(np.exp(self._log_density(0, nothing)), np.exp(self._log_density(1, nothing)))
        return either(*(self._smallest(place, yes) for place in yes))

    def _smallest(self, place: int, yes: tuple[int, ...]) -> Law:
        """Return the part of the law with these yeses and the smallest answer at `place`.

        The threshold lies below the smallest answer.
        """
        scale = self.threshold.noise
        y, weight = nodes(self._breaks, [2 * scale])
        here = np.abs(y) < _FAR * scale
        y, weight = y[here], weight[here]
        outputs = np.tile([-1.0, 0.0], (len(y), self.threshold.stop))
        for i, each in enumerate(yes):
            outputs[:, 2 * i], outputs[:, 2 * i + 1] = each, y
        rest = [other for other in yes if other != place]
        edges = np.maximum(y[:, None], [-np.inf, *np.linspace(self._breaks[0], self._breaks[-1], _CELLS), np.inf])
        parts = []
        for which, queries in enumerate(self.inputs):
            mass = (weight * np.exp(self._log_density(which, outputs)))[:, None]
            for other in rest:  # the other answer may lie anywhere above y
                mass = mass / laplace(y - queries[other], scale)[:, None]
                mass = mass * np.diff(laplace_cdf(edges - queries[other], scale), axis=1)
            parts.append(mass.ravel())
        return Law(parts[0], parts[1])

    @property
    def _breaks(self) -> list[float]:
        return sorted({*self.inputs[0], *self.inputs[1]})

    def _log_density(self, which: int, outputs: Floats) -> Floats:
        """Return the log density [n] of outputs under the input `which`.

        The density is the density of the released answers, times the probability that the threshold lies below all of
        them and above all noisy answers that got a no.
        """
        queries, scale, stop = np.asarray(self.inputs[which]), self.threshold.noise, self.threshold.stop
        place, answer = outputs[:, ::2].astype(np.int64), outputs[:, 1::2]
        some = place >= 0
        own = np.where(some, -np.abs(answer - queries[place]) / scale - np.log(2 * scale), 0).sum(axis=1)
        lowest = np.where(some, answer, np.inf).min(axis=1)
        last = np.where(some.all(axis=1), place[:, stop - 1] + 1, QUERIES)
        early = (some & (place < _HALF)).sum(axis=1)
        first = np.minimum(last, _HALF) - early
        return np.asarray(own + self._log_below(which, first, last - first - some.sum(axis=1), lowest))

    def _log_below(self, which: int, first: NDArray[np.int64], second: NDArray[np.int64], lowest: Floats) -> Floats:
        """Return ln P(threshold <= lowest and above all noisy answers that got a no), from a table.

        first, second: how many queries of the first and of the second half got a no.
        """
        start, step, logs = self._tables[which]
        at = np.clip((lowest - self.threshold.level - start) / step, 0, logs.shape[2] - 1.000001)
        at = np.where(np.isinf(lowest), logs.shape[2] - 1.000001, at)
        below = at.astype(np.int64)
        part = at - below
        return np.asarray((1 - part) * logs[first, second, below] + part * logs[first, second, below + 1])

    @cached_property
    def _tables(self) -> list[tuple[float, float, Floats]]:
        """For each input: the start and the step of a grid over the threshold's noise, and log integrals [6, 6, m].

        The integrals run up to each grid point. The first two indices are the numbers of queries, of the first and of
        the second half, that lie below the threshold.
        """
        return [self._table(queries) for queries in self.inputs]

    def _table(self, queries: Sequence[float]) -> tuple[float, float, Floats]:
        threshold = self.threshold
        step = min(threshold.scale, threshold.noise) / 256
        start = -np.ceil(60 * threshold.scale / step) * step
        edges = start + step * np.arange(int(np.ceil(120 * threshold.scale / step)) + 1)
        at, weight = np.polynomial.legendre.leggauss(4)
        y = edges[:-1, None] + step / 2 * (1 + at)
        mass = laplace(y, threshold.scale) * weight * step / 2
        below = [laplace_cdf(y + threshold.level - queries[i], threshold.noise) for i in (0, QUERIES - 1)]
        powers = [np.array([base**i for i in range(_HALF + 1)]) for base in below]
        parts = np.einsum("apk,bpk,pk->abp", powers[0], powers[1], mass, optimize=True)
        with np.errstate(divide="ignore"):
            logs = np.log(np.concatenate([np.zeros((_HALF + 1, _HALF + 1, 1)), np.cumsum(parts, axis=2)], axis=2))
        return start, step, np.maximum(logs, -700)


def revealing(name: str, inputs: Inputs, threshold: Threshold) -> KnownMechanism:
    """Return algorithm 3 at a pair of inputs."""
    algorithm = Revealing(inputs, threshold)
    return KnownMechanism(
        name,
        "Lyu, Su and Li, VLDB 2017, algorithm 3",
        algorithm.draw,
        algorithm.loss,
        law=lambda: algorithm.law,
        claim=EPSILON,
    )


def parallel(name: str, inputs: Inputs, third: Threshold, fourth: Threshold) -> KnownMechanism:
    """Return the mechanism that runs algorithms 3 and 4 on the same queries.

    Outputs: the columns of algorithm 3, then the index in `places` of algorithm 4's answers.
    """
    algorithm = Revealing(inputs, third)

    @cache
    def second() -> Law:
        return Law(fourth.chances(inputs[0]), fourth.chances(inputs[1]))

    @cache
    def law() -> Law:
        return together(algorithm.law, second(), step=_STEP)

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        answers = numbered(fourth.above(inputs[which], count, rng), fourth.stop)
        return np.column_stack([algorithm.draw(which, count, rng), answers])

    def loss(outputs: Floats) -> Floats:
        return algorithm.loss(outputs[:, :-1]) + second().losses[outputs[:, -1].astype(np.int64)]

    origin = "Bichsel, Steffen, Bogunovic and Vechev, S&P 2021"
    return KnownMechanism(name, origin, draw, loss, law=law, claim=2 * EPSILON)


def numerical(name: str, inputs: tuple[float, float], threshold: Threshold, scale: float) -> KnownMechanism:
    """Return NumericalSVT on ten queries that all have the same true answer.

    inputs: that answer under the first and under the other input; scale: the scale of the noise on released answers.
    Outputs: [n, 2 stop], as for algorithm 3.
    """
    stop, shift = threshold.stop, inputs[1] - inputs[0]
    codes = {yes: number for number, yes in enumerate(places(stop))}

    @cache
    def answers() -> tuple[Floats, Floats]:
        return threshold.chances([inputs[0]] * QUERIES), threshold.chances([inputs[1]] * QUERIES)

    @cache
    def law() -> Law:
        sizes = np.array([len(yes) for yes in codes])
        parts = [Law(*(chances[sizes == size] for chances in answers())) for size in range(stop + 1)]
        value = laplace_law(shift, scale)
        return either(*(together(part, *[value] * size, step=_STEP / 10) for size, part in enumerate(parts)))

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        number = numbered(threshold.above([inputs[which]] * QUERIES, count, rng), stop)
        spots = np.array([[*yes, *[-1] * (stop - len(yes))] for yes in codes])[number]
        values = inputs[which] + rng.laplace(scale=scale, size=spots.shape)
        return np.stack([spots, np.where(spots >= 0, values, 0)], axis=2).reshape(count, -1)

    def loss(outputs: Floats) -> Floats:
        spots, values = outputs[:, ::2].astype(np.int64), outputs[:, 1::2]
        losses = np.log(answers()[0]) - np.log(answers()[1])
        number = numbered((spots[:, :, None] == np.arange(QUERIES)).any(axis=1), stop)
        away = (np.abs(values - inputs[1]) - np.abs(values - inputs[0])) / scale
        return np.asarray(losses[number] + np.where(spots >= 0, away, 0).sum(axis=1))

    origin = "Wang, Ding, Wang, Kifer and Zhang, PLDI 2019"
    return KnownMechanism(name, origin, draw, loss, law=law, claim=EPSILON)
