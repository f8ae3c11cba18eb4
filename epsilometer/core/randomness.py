"""Named random streams, one for each trial, counter-based and vectorised over trials.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), computed on
arrays: the n-th number of a trial is a pure function of (key, trial, n). So the text of a trial cannot depend on batch
size, order, worker count or on which other trials ran. The key is a hash of the stream's name.

A seeded stream is reproducible, and anyone who knows the seed can invert it: good for audits, not for publication.
`Noise.operating_system` draws from the operating system instead, and its streams hold exact samplers
(`epsilometer.core.exact_samplers`), which every mechanism with a claim draws from where the stream has them. Training
draws from its numpy generators, whose bits are the operating system's too (`epsilometer.core.system`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import system
from epsilometer.core.exact_samplers import Exact

_MULTIPLIER = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_CHUNK = 1 << 14  # counters at a time: the working arrays stay in the processor's cache


def _rounds(work: NDArray[np.uint64], key: tuple[int, int]) -> tuple[NDArray[np.uint64], ...]:
    """Philox4x32-10 of counters under one key: the four words [n] of each block, 32 bits in 64.

    work: [5, n], four rows of counters and a spare one; it is overwritten, since new arrays would take longer than the
    arithmetic, and holds what is returned.
    """
    x0, x1, x2, x3, spare = work
    k0, k1 = key
    for _ in range(10):
        x0 *= _MULTIPLIER[0]
        x2 *= _MULTIPLIER[1]
        x1 ^= np.right_shift(x2, _SHIFT, out=spare)
        x1 ^= np.uint64(k0)
        x3 ^= np.right_shift(x0, _SHIFT, out=spare)
        x3 ^= np.uint64(k1)
        x0 &= _LOW
        x2 &= _LOW
        x0, x1, x2, x3 = x1, x2, x3, x0
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return x0, x1, x2, x3


def _open_unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The midpoint of one of 2^53 cells of (0, 1), chosen by 64 random bits: never 0, never 1."""
    cells = (words >> np.uint64(11)).astype(np.float64)
    cells += 0.5
    cells *= 2.0**-53
    return cells


@dataclass(frozen=True)
class Noise:
    """A stream for each of n trials.

    trials: int64 [n], the numbers of the trials; key: two 32-bit words, or None for the operating system's randomness.
    exact:  the samplers of a publication; None for a seeded stream, whose draws are single floating-point numbers.
    """

    trials: NDArray[np.int64]
    key: tuple[int, int] | None
    exact: Exact | None = None

    @classmethod
    def named(cls, trials: NDArray[np.integer] | int, *name: str | int | float) -> Noise:
        """The stream with this name, for instance (seed, round, "rewrite", dataset, mechanism, epsilon)."""
        digest = hashlib.blake2b(json.dumps(name).encode(), digest_size=8).digest()
        numbers = np.arange(trials) if isinstance(trials, int) else np.asarray(trials)
        return cls(numbers.astype(np.int64), (int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")))

    @classmethod
    def operating_system(cls, count: int) -> Noise:
        """Fresh, irreproducible streams for a publication."""
        return cls(np.arange(count), None, Exact())

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Noise:
        return Noise(self.trials[rows], self.key, self.exact)

    def uniforms(self, draws: int = 1, first: int = 0) -> NDArray[np.float64]:
        """Returns [n, draws] numbers in the open unit interval: each trial's draws number first, first + 1, ..."""
        if self.key is None:
            return self._at(np.repeat(self.trials, draws), np.empty(0, np.int64)).reshape(len(self), draws)
        out = np.empty((draws, len(self)))
        for block in range(first // 2, (first + draws + 1) // 2):
            halves = [half for half in (0, 1) if 0 <= 2 * block + half - first < draws]
            for part, words in self._words(self.trials, np.broadcast_to(np.int64(block), len(self))):
                for half in halves:
                    high, low = words[2 * half : 2 * half + 2]
                    high <<= _SHIFT
                    high |= low
                    out[2 * block + half - first, part] = _open_unit(high)
        return out.T

    def ragged(self, lengths: NDArray[np.integer], draws: int = 1) -> NDArray[np.float64]:
        """Returns [sum(lengths), draws]: `draws` numbers for each unit of each trial, trial by trial; lengths: [n]."""
        lengths = np.asarray(lengths, np.int64)
        starts = np.cumsum(lengths) - lengths
        unit = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        number = (unit[:, None] * draws + np.arange(draws)).ravel()
        return self._at(np.repeat(np.repeat(self.trials, lengths), draws), number).reshape(-1, draws)

    def generator(self, row: int) -> np.random.Generator:
        """A trial's own numpy generator, for code that needs one."""
        if self.key is None:
            return system.generator()
        # numpy's Philox is the 64-bit variant; trials are 2^128 counters apart, so their streams never meet.
        return np.random.Generator(
            np.random.Philox(key=[self.key[0] << 32 | self.key[1], 1], counter=[0, 0, int(self.trials[row]), 0])
        )

    def _at(self, trials: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.key is None:
            return _open_unit((self.exact or Exact()).words(len(trials)))
        out = np.empty(len(trials))
        for part, words in self._words(trials, numbers >> 1):
            odd = (numbers[part] & 1).astype(bool)
            high, low = np.where(odd, words[2], words[0]), np.where(odd, words[3], words[1])
            out[part] = _open_unit(high << _SHIFT | low)
        return out

    def _words(
        self, trials: NDArray[np.int64], blocks: NDArray[np.int64]
    ) -> Iterator[tuple[slice, tuple[NDArray[np.uint64], ...]]]:
        """Slices, and the four words of each Philox block in them: the high and the low half of two numbers.

        The words of a slice last until the next is asked for.
        """
        assert self.key is not None
        work = np.empty((5, min(_CHUNK, len(trials))), np.uint64)
        for start in range(0, len(trials), _CHUNK):
            part = slice(start, start + _CHUNK)
            trial, block = trials[part].view(np.uint64), blocks[part].view(np.uint64)
            counter = work[:, : len(trial)]
            for row, half in enumerate((block & _LOW, block >> _SHIFT, trial & _LOW, trial >> _SHIFT)):
                counter[row] = half
            yield part, _rounds(counter, self.key)
