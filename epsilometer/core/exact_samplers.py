"""Exact samplers for publication: integer arithmetic on the operating system's bits.

A seeded audit turns one 53-bit uniform into a draw. An output of probability below 2^-53 then may never occur. Also,
the low bits of a sum of floating-point numbers can rule out an input (Mironov 2012, "On significance of the least
significant bits for differential privacy"). So publications draw from these exact samplers instead. No floating-point
comparison decides a draw, and every output of positive weight can occur.

`laplace` and `gaussian` are algorithms 1 to 3 of Canonne, Kamath and Steinke 2020, "The discrete Gaussian for
differential privacy": their laws hold exactly. `choose` draws exactly from weights that are integers times powers of
two. These weights are computed from logarithms. Each weight is within a factor e^(+-error) of the exact exponential
(`weight_error`). Equal logarithms give equal `Weights`, so a cache of `Weights` changes no draw.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

SLACK = 2.0**-20  # the part of epsilon that a publication leaves unspent to cover rounding
_LN2_HIGH = float.fromhex("0x1.62e42fefp-1")  # ln 2 to 33 bits: products with integers below 2^20 are exact
_LN2_LOW = float.fromhex("0x1.473de6af278edp-34")  # ln 2 minus _LN2_HIGH
_MANTISSA = 50


def system_words(count: int) -> Words:
    """Return [count] words of 64 bits from the operating system."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def weight_error(outputs: int, log_range: float) -> float:
    """Return the largest error in nats of a weight of `choose`, compared with e^(log-weight).

    outputs: the number of outputs; log_range: the largest log-weight minus the smallest that matters. The log-ratio of
    two inputs' laws is off by at most four such errors: one for each of the two weights, and one for each of the two
    sums of weights.
    """
    return 2.0 ** -_bits(outputs) + (log_range + 4) * 2.0**-51


def _bits(outputs: int) -> int:
    """Return the number of fraction bits of a mantissa. With this number, the sum of all mantissas stays below 2^62."""
    return min(_MANTISSA, 61 - outputs.bit_length())


@dataclass(frozen=True)
class Weights:
    """Weights e^(log-weight) as integers of about 47 bits times powers of two, so that even the smallest is not 0.

    outputs: integers [m], the outputs of positive weight, sorted by their power of two, the largest power first.
    ends:    int64 [m], running sums of these outputs' integers.
    starts:  for each power of two, the running sum before its first output.
    shifts:  for each power of two, its exponent minus the smallest exponent.
    reached: for each power of two, the sum of all weights up to its last output, in units of the smallest power.
    """

    outputs: NDArray[np.unsignedinteger]
    ends: NDArray[np.int64]
    starts: list[int]
    shifts: list[int]
    reached: list[int]

    @classmethod
    def of(cls, log_weights: NDArray[np.floating]) -> Weights:
        """Return the weights for logarithms [m], to an error of `weight_error`. Minus infinity gives a weight of 0."""
        possible = np.flatnonzero(log_weights > -np.inf)
        below = log_weights[possible].astype(np.float64) - log_weights.max()
        level = np.floor(below / np.log(2))
        fraction = (below - level * _LN2_HIGH) - level * _LN2_LOW  # between 0 and ln 2, to rounding
        weight = np.rint(np.ldexp(np.exp(fraction), _bits(len(log_weights)))).astype(np.int64)
        depth = (-level).astype(np.min_scalar_type(int(-level.min())))  # numpy uses radix sort for small integers
        order = np.argsort(depth, kind="stable")
        sorted_depth, sorted_weight = depth[order], weight[order]
        first = np.flatnonzero(np.diff(sorted_depth, prepend=sorted_depth[0] + 1))  # np.unique would sort once more
        levels = sorted_depth[first].astype(np.int64)
        ends = np.cumsum(sorted_weight)
        starts = [int(ends[i - 1]) if i else 0 for i in first]
        totals = np.add.reduceat(sorted_weight, first).tolist()
        shifts = (levels[-1] - levels).tolist()
        reached = list(accumulate(total << shift for total, shift in zip(totals, shifts, strict=True)))
        outputs = possible[order].astype(np.min_scalar_type(len(log_weights)))
        return cls(outputs, ends, starts, shifts, reached=reached)

    @property
    def bytes(self) -> int:
        """The memory of the arrays and the big integers, in bytes."""
        integers = [*self.reached, *self.leading[2]]
        return self.outputs.nbytes + self.ends.nbytes + sum(map(sys.getsizeof, integers))

    def places(self, number: int) -> list[int]:
        """Return the place of an integer in the running sums `ends`; none if it is not below the sum of all weights."""
        group = bisect_right(self.reached, number)
        if group == len(self.reached):
            return []
        return [self.starts[group] + ((number - (self.reached[group - 1] if group else 0)) >> self.shifts[group])]

    @cached_property
    def leading(self) -> tuple[int, int, list[int]]:
        """Numbers with which the leading 64 bits of a random integer are compared.

        The integer has as many bits as the largest integer below the sum of all weights. The first part is the number
        of bits after the leading ones; it is negative if the integer is shorter and is shifted up to 64 bits. The
        second part has the leading bits of that largest integer. The third part has the leading bits of each number in
        `reached` whose other bits are 0. The integer is below such a number exactly if its leading bits are.
        """
        last = self.reached[-1] - 1
        rest = last.bit_length() - 64
        sums = [total for total, shift in zip(self.reached, self.shifts, strict=True) if shift >= rest]
        return rest, _shifted(last, rest), [_shifted(total, rest) for total in sums]


def _shifted(number: int, bits: int) -> int:
    return number >> bits if bits > 0 else number << -bits


class WeightCache:
    """A cache of the most recently used weights, of at most `limit` bytes (plus a few hundred bytes per entry)."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.limit, self.bytes = limit, 0
        self._entries: OrderedDict[Hashable, Weights] = OrderedDict()

    def get(self, key: Hashable) -> Weights | None:
        """Return the weights under a key, None if they are not cached."""
        weights = self._entries.get(key)
        if weights is not None:
            self._entries.move_to_end(key)
        return weights

    def put(self, key: Hashable, weights: Weights) -> None:
        """Cache weights under a new key, and drop the least recently used ones to make room."""
        self._entries[key] = weights
        self.bytes += weights.bytes
        while self.bytes > self.limit:
            self.bytes -= self._entries.popitem(last=False)[1].bytes


@dataclass(frozen=True)
class ExactDraws:
    """Exact draws. words: the source of random bits, which is the operating system except in tests."""

    words: Callable[[int], Words] = system_words

    def below(self, bounds: Words) -> Words:
        """Return [n] uniform integers, each >= 0 and below its bound [n]; bounds are at least 1."""
        out, left = np.empty(len(bounds), np.uint64), np.arange(len(bounds))
        while len(left):
            words, bound = self.words(len(left)), bounds[left]
            fits = words >= (np.uint64(0) - bound) % bound  # so that every remainder is equally frequent
            out[left[fits]] = words[fits] % bound[fits]
            left = left[~fits]
        return out

    def integers(self, bound: int, count: int) -> list[int]:
        """Return [count] uniform integers >= 0 and below a bound of any size."""
        bits = (bound - 1).bit_length()
        size = 8 * max(1, -(-bits // 64))  # in bytes
        accepted: list[int] = []
        while missing := count - len(accepted):
            words = self.words(size // 8 * missing).tobytes()
            for i in range(0, len(words), size):
                number = int.from_bytes(words[i : i + size], "little") >> (8 * size - bits)
                if number < bound:
                    accepted.append(number)
        return accepted

    def exponential(self, numerators: Words, denominators: Words) -> NDArray[np.bool_]:
        """Return [n] coins, true with probability e^(-numerator / denominator); the fractions [n] are at most 1.

        Algorithm 1: coins of probability gamma / k are tossed for k = 1, 2, ... until one fails.
        """
        out, left, k = np.empty(len(numerators), bool), np.arange(len(numerators)), 1
        while len(left):
            success = self.below(denominators[left]) < numerators[left]
            if k > 1:
                success &= self.below(np.full(len(left), k, np.uint64)) == 0
            out[left[~success]] = k % 2 == 1
            left, k = left[success], k + 1
        return out

    def laplace(self, numerators: Words, denominators: Words) -> NDArray[np.int64]:
        """Return [n] draws of discrete Laplace noise: P(k) is proportional to e^(-|k| numerator / denominator).

        Algorithm 2. The fractions [n] are positive; denominators are at most 2^40.
        """
        out, left = np.empty(len(numerators), np.int64), np.arange(len(numerators))
        while len(left):
            rate, scale = numerators[left], denominators[left]
            rest = self.below(scale)
            accepted = self.exponential(rest, scale)
            left_now, rate, scale, rest = left[accepted], rate[accepted], scale[accepted], rest[accepted]
            size = ((rest + scale * self._tries(len(left_now))) // rate).astype(np.int64)
            negative = self.words(len(left_now)) & np.uint64(1) == 1
            counts = ~negative | (size > 0)  # 0 would be counted twice
            out[left_now[counts]] = np.where(negative, -size, size)[counts]
            left = np.concatenate([left[~accepted], left_now[~counts]])
        return out

    def gaussian(self, deviations: Words) -> NDArray[np.int64]:
        """Return [n] draws of the discrete Gaussian, P(k) ~ e^(-k^2 / (2 s^2)); s: [n] integers from 1 to 2^31.

        Algorithm 3: Laplace noise of scale s is proposed, and accepted with probability e^(-(|k| - s)^2 / 2 s^2).
        """
        out, left = np.empty(len(deviations), np.int64), np.arange(len(deviations))
        while len(left):
            s = deviations[left]
            proposed = self.laplace(np.ones(len(left), np.uint64), s)
            away = np.abs(np.abs(proposed) - s.astype(np.int64)).astype(np.uint64)
            whole, rest = away // s, away % s
            # ((whole s + rest) / s)^2 / 2, in three fractions that are at most 1 and fit into 64 bits.
            accepted = self._powers(np.ones_like(s), np.full_like(s, 2), whole * whole)
            for numerator, denominator, times in ((rest, s, whole), (rest * rest, 2 * s * s, np.ones_like(s))):
                at = np.flatnonzero(accepted)
                accepted[at] = self._powers(numerator[at], denominator[at], times[at])
            out[left[accepted]] = proposed[accepted]
            left = left[~accepted]
        return out

    def choose(self, weights: Weights | NDArray[np.floating], count: int = 1) -> NDArray[np.int64]:
        """Return [count] outputs, drawn in proportion to their weights. The weights may be given as logarithms [m]."""
        return self.choose_each([weights if isinstance(weights, Weights) else Weights.of(weights)], [count])

    def choose_each(self, rows: Sequence[Weights], counts: Sequence[int]) -> NDArray[np.int64]:
        """Return counts[i] outputs for each row of weights i, row after row, drawn in proportion to the weights.

        A uniform integer below the sum of a row's weights decides on an output. Its leading 64 bits are drawn first.
        They suffice almost always; only otherwise are the other bits drawn.
        """
        out, start, words = np.empty(sum(counts), np.int64), 0, self._stream(sum(counts))
        for weights, count in zip(rows, counts, strict=True):
            rest, last, leading = weights.leading
            at = list[int]()
            while len(at) < count:
                word = next(words)
                group = bisect_right(leading, word)
                if group < len(leading):
                    inside = (word - (leading[group - 1] if group else 0)) >> (weights.shifts[group] - rest)
                    at.append(weights.starts[group] + inside)
                elif word <= last and rest > 0:
                    at += weights.places(word << rest | self.integers(1 << rest, 1)[0])
            sought = at[0] if count == 1 else at  # numpy takes half as long for a number as for a list of one
            out[start : start + count] = weights.outputs[weights.ends.searchsorted(sought, side="right")]
            start += count
        return out

    def _stream(self, count: int) -> Iterator[int]:
        """Yield words without end: `count` of them from one request, and more where integers were refused."""
        yield from self.words(count).tolist()
        while True:
            yield from self.words(count // 2 + 16).tolist()

    def _tries(self, count: int) -> Words:
        """Return [count] numbers of successes before the first failure, for coins of probability 1 / e."""
        out, left = np.zeros(count, np.uint64), np.arange(count)
        while len(left):
            ones = np.ones(len(left), np.uint64)
            left = left[self.exponential(ones, ones)]
            out[left] += np.uint64(1)
        return out

    def _powers(self, numerators: Words, denominators: Words, times: Words) -> NDArray[np.bool_]:
        """Return [n] coins, true with probability e^(-times numerator / denominator)."""
        out, left, done = np.ones(len(times), bool), np.flatnonzero(times), 0
        while len(left):
            success = self.exponential(numerators[left], denominators[left])
            out[left[~success]] = False
            done += 1
            left = left[success & (times[left] > done)]
        return out
