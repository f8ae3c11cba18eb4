"""Named random streams, one for each trial, counter-based and vectorised over trials.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), computed on
arrays. The n-th number of a trial is a pure function of (key, trial, n). So a trial's rewrite cannot depend on the
batch size, the order, the worker count or the other trials. The key is a hash of the stream's name.

A seeded stream is reproducible, but anyone who knows the seed can undo the noise. So seeded streams suit audits, not
publication. For publication, `Noise.operating_system` draws from the operating system. These streams have exact
samplers (`epsilometer.core.exact_samplers`), which every mechanism with a claim uses in a publication. Training draws
from numpy generators, which in a publication take the system's bits, too (`epsilometer.core.system`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import system
from epsilometer.core.exact_samplers import ExactDraws

# Zero-dimensional arrays, since numpy would convert a Python number in each operation, which is slow.
_MULTIPLIER = np.array(0xD2511F53, np.uint64), np.array(0xCD9E8D57, np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _SHIFT, _CELL = (np.array(number, np.uint64) for number in (0xFFFFFFFF, 32, 11))
_BELOW_ONE = 1 - 2.0**-53
_CHUNK = 1 << 14  # counters at a time: the working arrays stay in the processor's cache


def _rounds(work: NDArray[np.uint64], key: tuple[int, int], done: int = 0) -> tuple[NDArray[np.uint64], ...]:
    """Return Philox4x32-10 of counters under one key: four words [n], each of 32 bits stored in 64.

    work: [5, n], four rows of counters (or their state after `done` rounds) and a spare row. `work` is overwritten,
    since allocating arrays would take longer than the arithmetic. The result is a view of `work`.
    """
    x0, x1, x2, x3, spare = work
    for k0, k1 in _round_keys(key)[done:]:
        np.multiply(x0, _MULTIPLIER[0], x0)
        np.multiply(x2, _MULTIPLIER[1], x2)
        np.bitwise_xor(x1, np.right_shift(x2, _SHIFT, spare), x1)
        np.bitwise_xor(x1, k0, x1)
        np.bitwise_xor(x3, np.right_shift(x0, _SHIFT, spare), x3)
        np.bitwise_xor(x3, k1, x3)
        np.bitwise_and(x0, _LOW, x0)
        np.bitwise_and(x2, _LOW, x2)
        x0, x1, x2, x3 = x1, x2, x3, x0
    return x0, x1, x2, x3


def _first_rounds(
    work: NDArray[np.uint64], trials: NDArray[np.uint64], block: int, key: tuple[int, int]
) -> tuple[NDArray[np.uint64], ...]:
    """Return `_rounds` for one block number and trials [n] below 2^32. Two rounds are half on scalars."""
    x0, x1, x2, x3, spare = work
    keys = [[int(word) for word in words] for words in _round_keys(key)[:3]]
    (m0, m1), low = map(int, _MULTIPLIER), int(_LOW)
    constant = (block & low) * m0
    np.multiply(trials, _MULTIPLIER[1], x1)
    np.bitwise_xor(np.right_shift(x1, _SHIFT, x0), block >> 32 ^ keys[0][0], x0)
    np.bitwise_and(x1, _LOW, x1)
    third, fourth = constant >> 32 ^ keys[0][1], constant & low
    constant = third * m1
    np.multiply(x0, _MULTIPLIER[0], x3)
    np.bitwise_xor(x1, constant >> 32 ^ keys[1][0], x0)
    np.bitwise_xor(np.right_shift(x3, _SHIFT, x2), fourth ^ keys[1][1], x2)
    np.bitwise_and(x3, _LOW, x3)
    second = constant & low
    np.multiply(x2, _MULTIPLIER[1], x1)
    np.multiply(x0, _MULTIPLIER[0], spare)
    np.bitwise_xor(np.right_shift(x1, _SHIFT, x0), second ^ keys[2][0], x0)
    np.bitwise_xor(np.right_shift(spare, _SHIFT, x2), x3, x2)
    np.bitwise_xor(x2, keys[2][1], x2)
    np.bitwise_and(x1, _LOW, x1)
    np.bitwise_and(spare, _LOW, x3)
    return _rounds(work, key, 3)


@lru_cache(maxsize=64)
def _round_keys(key: tuple[int, int]) -> list[list[NDArray[np.uint64]]]:
    """Return the two words of the key of each round."""
    words = np.array(key, np.uint64) + np.arange(10, dtype=np.uint64)[:, None] * np.array(_WEYL, np.uint64)
    return [[np.array(word) for word in row] for row in words & _LOW]


def open_unit(words: NDArray[np.uint64], out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """For each word of 64 random bits, return the midpoint of one of 2^53 cells of (0, 1): never 0, never 1."""
    out = np.empty(words.shape) if out is None else out
    out[...] = words >> _CELL
    out += 0.5  # the last cell rounds up to 2^53
    out *= 2.0**-53
    return np.minimum(out, _BELOW_ONE, out=out)


@dataclass(frozen=True)
class Noise:
    """Random streams, one for each of n trials.

    trials: int64 [n], the numbers of the trials; key: two 32-bit words, or None for the operating system's randomness.
    exact:  the samplers of a publication; None for a seeded stream, whose draws use rounded floating-point numbers.
    """

    trials: NDArray[np.int64]
    key: tuple[int, int] | None
    exact: ExactDraws | None = None

    @classmethod
    def named(cls, trials: NDArray[np.integer] | int, *name: str | int | float) -> Noise:
        """Return the streams with this name, for instance (seed, round, "rewrite", dataset, mechanism, epsilon)."""
        digest = hashlib.blake2b(json.dumps(name).encode(), digest_size=8).digest()
        numbers = np.arange(trials) if isinstance(trials, int | np.integer) else np.array(trials, np.int64)
        return cls(numbers, (int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")))

    @classmethod
    def operating_system(cls, count: int) -> Noise:
        """Return fresh, irreproducible streams for a publication."""
        return cls(np.arange(count), None, ExactDraws())

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Noise:
        return Noise(self.trials[rows], self.key, self.exact)

    def uniforms(self, draws: int = 1, first: int = 0) -> NDArray[np.float64]:
        """Return [n, draws] numbers in the open unit interval: numbers first, first + 1, ... of each trial's stream."""
        if self.key is None:
            return self._from_the_system(len(self) * draws).reshape(len(self), draws)
        out = np.empty((draws, len(self)))
        for block in range(first // 2, (first + draws + 1) // 2):
            halves = [half for half in (0, 1) if 0 <= 2 * block + half - first < draws]
            for part, words in self._words(self.trials, np.array(block)):
                for half in halves:
                    high, low = words[2 * half : 2 * half + 2]
                    np.left_shift(high, _SHIFT, high)
                    open_unit(np.bitwise_or(high, low, high), out[2 * block + half - first, part])
        return out.T

    def ragged(self, lengths: NDArray[np.integer], draws: int = 1) -> NDArray[np.float64]:
        """Return [sum(lengths), draws]: `draws` numbers for each unit of each trial, trial by trial; lengths: [n]."""
        counts = np.asarray(lengths, np.int64) * draws
        if self.key is None:
            return self._from_the_system(int(counts.sum())).reshape(-1, draws)
        blocks = (counts + 1) // 2  # each block gives two numbers
        ends = np.cumsum(blocks)
        block = np.arange(blocks.sum()) - np.repeat(ends - blocks, blocks)
        out = np.empty((len(block), 2))
        for part, words in self._words(np.repeat(self.trials, blocks), block):
            for half in (0, 1):
                high, low = words[2 * half : 2 * half + 2]
                np.left_shift(high, _SHIFT, high)
                open_unit(np.bitwise_or(high, low, high), out[part, half])
        unused = 2 * ends[counts % 2 == 1] - 1
        numbers = np.delete(out, unused) if len(unused) else out
        return numbers.reshape(-1, draws)

    def generator(self, row: int) -> np.random.Generator:
        """Return a trial's own numpy generator, for code that needs one."""
        if self.key is None:
            return system.generator()
        # numpy's Philox is the 64-bit variant; trials are 2^128 counters apart, so their streams never meet.
        return np.random.Generator(
            np.random.Philox(key=[self.key[0] << 32 | self.key[1], 1], counter=[0, 0, int(self.trials[row]), 0])
        )

    def _from_the_system(self, count: int) -> NDArray[np.float64]:
        return open_unit((self.exact or ExactDraws()).words(count))

    def _words(
        self, trials: NDArray[np.int64], blocks: NDArray[np.int64]
    ) -> Iterator[tuple[slice, tuple[NDArray[np.uint64], ...]]]:
        """Yield slices of trials and the four words of each Philox block: the high and low halves of two numbers.

        trials: [n]; blocks: [n], or zero-dimensional if all are the same. The next slice overwrites the words.
        """
        assert self.key is not None
        work = np.empty((5, min(_CHUNK, len(trials))), np.uint64)
        for start in range(0, len(trials), _CHUNK):
            part = slice(start, start + _CHUNK)
            trial, block = trials[part].view(np.uint64), (blocks[part] if blocks.ndim else blocks).view(np.uint64)
            counter = work[:, : len(trial)]
            if not block.ndim and int(trial.max()) <= int(_LOW):
                yield part, _first_rounds(counter, trial, int(block), self.key)
                continue
            for number, low, high in ((block, *counter[:2]), (trial, *counter[2:4])):
                np.bitwise_and(number, _LOW, low)
                np.right_shift(number, _SHIFT, high)
            yield part, _rounds(counter, self.key)
