"""Near-duplicates among texts by MinHash (Broder 1997), with an index on disk: memory does not grow with the texts.

Two texts are compared where all rows of one of their bands agree (Indyk and Motwani 1998; bands and rows are those of
datasketch's MinHashLSH), and are near-duplicates where the share of equal hashes, MinHash's estimate of the Jaccard
similarity of their character 3-grams, reaches the threshold.

Texts come some thousands at a time. Those before them lie on disk: the hashes of those that stayed, and for each band
their keys in sorted runs (O'Neil et al. 1996, "The log-structured merge-tree"), which the sorted keys of a part of the
texts walk through in one direction; runs of like size are merged. Texts of one part are compared in memory. A text's
own key only chooses whom it is compared with, so the result is that of one index in memory.

On disk a text that stays takes 4 bytes for each of `PERMUTATIONS` hashes and 12 for each band, and while runs are
merged 12 more. In memory a text takes 8 bytes for its stand-in; a merge takes some 40 bytes for each text that stayed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import track

PERMUTATIONS, GRAM = 128, 3
HIGHEST = 0.95  # threshold
_PART = 8192  # texts that are compared in memory
_PAIRS = 1 << 15  # compared at a time

Hashes = NDArray[np.uint32]  # [texts, PERMUTATIONS]
Keys = NDArray[np.uint64]  # [bands, texts]


def stand_ins(
    texts: Sequence[str], threshold: float = 0.4, seed: int = 0, folder: Path | None = None
) -> NDArray[np.int64]:
    """Returns [n]: for each text the number of the one that represents it, itself where it stays.

    Texts come in order of preference: each one falls to the first of those that stay whose similarity, as MinHash
    estimates it, reaches the threshold. folder: where the index lies for the while, in the system's own by default.
    Raises UserError for a threshold outside (0, 0.95].
    """
    from datasketch import MinHashLSH

    if not 0 < threshold <= HIGHEST:  # beyond it the index has a single band
        raise UserError(f"threshold must be above 0 and at most {HIGHEST}, got {threshold}")
    shape = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    result = np.arange(len(texts))
    with TemporaryDirectory(prefix="near-duplicates-", dir=folder) as place:
        stayed = _Stayed(Path(place), (shape.b, shape.r), threshold, len(texts))
        start = 0
        for hashes in _hashes(texts, seed):
            part = result[start : start + len(hashes)]
            keys = _keys(hashes, shape.b, shape.r)
            part[:] = stayed.nearest(hashes, keys)
            stay = _compare(hashes, keys, part, threshold=threshold, start=start)
            start += len(hashes)
            if start < len(texts):
                stayed.add(hashes[stay], keys[:, stay], stay + start - len(hashes))
    return result


def _hashes(texts: Sequence[str], seed: int) -> Iterator[Hashes]:
    """The texts' hashes, some texts at a time."""
    from datasketch import MinHash

    every = MinHash.generator(map(_grams, texts), num_perm=PERMUTATIONS, seed=seed + 1, scheme="affine32")
    tracked = track(every, len(texts), "find near-duplicates")
    while part := [one.hashvalues for one in islice(tracked, _PART)]:
        yield np.stack(part).astype(np.uint32)


def _keys(hashes: Hashes, bands: int, rows: int) -> Keys:
    """A number for each band of each text, the same where the rows of a band are, and else hardly ever."""
    parts = hashes[:, : bands * rows].reshape(len(hashes), bands, rows).astype(np.uint64)
    keys = np.zeros((len(hashes), bands), np.uint64)
    for row in range(rows):
        keys = (keys ^ parts[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return np.ascontiguousarray(keys.T)


def _compare(hashes: Hashes, keys: Keys, part: NDArray[np.int64], threshold: float, start: int) -> NDArray[np.int64]:
    """Fill in the stand-ins, in `part`, of texts that have none before it (-1). Returns which of the part stay."""
    buckets: list[defaultdict[int, list[int]]] = [defaultdict(list) for _ in keys]
    named, stay = keys.T.tolist(), []
    for i in np.flatnonzero(part < 0).tolist():
        mine = [bucket[key] for bucket, key in zip(buckets, named[i], strict=True)]
        others = np.array(sorted({j for one in mine for j in one}), np.int64)
        near = others[(hashes[others] == hashes[i]).mean(axis=1) >= threshold]
        part[i] = start + (near[0] if len(near) else i)
        if not len(near):
            stay.append(i)
            for one in mine:
                one.append(i)
    return np.array(stay, np.int64)


class _Stayed:
    """The texts of earlier parts that stayed, in a folder: hashes, and for each band keys in sorted runs."""

    def __init__(self, folder: Path, shape: tuple[int, int], threshold: float, most: int) -> None:
        self._folder, (self._bands, self._rows), self._threshold = folder, shape, threshold
        self._numbers = np.full(most + 1, -1, np.int64)  # of the texts; the last entry stays for those without any
        self._count = 0
        self._runs: list[tuple[Path, int]] = []  # and how many texts each holds
        self._written = 0

    def nearest(self, hashes: Hashes, keys: Keys) -> NDArray[np.int64]:
        """[texts]: the number of the first near-duplicate of each text among those that stayed, -1 where none is."""
        nearest = np.full(len(hashes), len(self._numbers) - 1, np.int64)
        if self._count:
            stored = np.memmap(self._folder / "hashes", np.uint32, "r", shape=(self._count, PERMUTATIONS))
            pairs = self._pairs(keys)
            for start in range(0, len(pairs), _PAIRS):
                text, other = np.divmod(pairs[start : start + _PAIRS], np.uint64(1 << 32))
                equal = hashes[text] == stored[other]
                whole = equal[:, : self._bands * self._rows].reshape(len(equal), self._bands, self._rows)
                near = (equal.mean(axis=1) >= self._threshold) & whole.all(axis=2).any(axis=1)
                np.minimum.at(nearest, text[near].astype(np.int64), other[near].astype(np.int64))
        return self._numbers[nearest]

    def add(self, hashes: Hashes, keys: Keys, numbers: NDArray[np.int64]) -> None:
        """Store the texts of these numbers, if any."""
        if not len(numbers):
            return
        with (self._folder / "hashes").open("ab") as file:
            file.write(np.ascontiguousarray(hashes).tobytes())
        order = keys.argsort(axis=1, kind="stable")
        places = (order + self._count).astype(np.uint32)
        self._numbers[self._count : self._count + len(numbers)] = numbers
        self._count += len(numbers)
        self._write(((keys[band][order[band]], places[band]) for band in range(self._bands)), len(numbers))
        while len(self._runs) > 1 and self._runs[-2][1] <= 2 * self._runs[-1][1]:
            right, left = self._runs.pop(), self._runs.pop()
            self._write(self._merged(left, right), left[1] + right[1])
            os.remove(left[0])
            os.remove(right[0])

    def _pairs(self, keys: Keys) -> NDArray[np.uint64]:
        """A text and one that stayed which share a key, as one number, text * 2^32 + place; ascending."""
        collected = [np.empty(0, np.uint64)]
        for band, own in enumerate(keys):
            order = own.argsort()
            for run in self._runs:
                stored, places = self._band(run, band)
                first, last = (np.searchsorted(stored, own[order], side) for side in ("left", "right"))
                count = last - first
                within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
                place = places[np.repeat(first, count) + within].astype(np.uint64)
                collected.append((np.repeat(order, count).astype(np.uint64) << np.uint64(32)) | place)
        return np.unique(np.concatenate(collected))

    def _band(self, run: tuple[Path, int], band: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The sorted keys of a run and, for each, the place of its text among those that stayed."""
        path, count = run
        at = band * count * 12
        keys = np.memmap(path, np.uint64, "r", offset=at, shape=(count,))
        return keys, np.memmap(path, np.uint32, "r", offset=at + 8 * count, shape=(count,))

    def _merged(
        self, left: tuple[Path, int], right: tuple[Path, int]
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32]]]:
        for band in range(self._bands):
            both = [self._band(run, band) for run in (left, right)]
            keys, places = (np.concatenate(parts) for parts in zip(*both, strict=True))
            order = keys.argsort(kind="stable")
            yield keys[order], places[order]

    def _write(self, bands: Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32]]], count: int) -> None:
        path = self._folder / f"run-{self._written}"
        self._written += 1
        with path.open("wb") as file:
            for keys, places in bands:
                file.write(keys.tobytes())
                file.write(places.tobytes())
        self._runs.append((path, count))


def _grams(text: str) -> list[bytes]:
    return [text[i : i + GRAM].encode() for i in range(max(1, len(text) - GRAM + 1))]
