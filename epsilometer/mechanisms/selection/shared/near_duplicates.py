"""Near-duplicates among texts by MinHash (Broder 1997), with an index on disk to limit memory.

The hashes of a text are divided into bands, as in datasketch's MinHashLSH; the hashes of a band are its rows. Two texts
are compared if all hashes of some band are equal (Indyk and Motwani 1998). Compared texts are near-duplicates if they
agree in a large enough share of all hashes (`threshold`). This share is MinHash's estimate of the Jaccard similarity of
their character 3-grams. Each text has a stand-in: the first text that stays and is a near-duplicate of it. If there is
none, the text stays, and is its own stand-in.

Texts are processed in parts of some thousands. The index of earlier parts is on disk. It contains the hashes of the
texts that stayed. For each band it also contains the keys of these texts (one hash of the whole band per text), in
sorted runs (O'Neil et al. 1996, "The log-structured merge-tree"). The sorted keys of a part are looked up in these runs
in one pass, and runs of similar size are merged. Texts of one part are compared in memory. Keys only select the texts
to compare, so the result equals that of an index in memory.

On disk, a text that stays takes 4 bytes per hash and 12 per band, and up to 18 more per band while runs are merged. In
memory, a text takes 8 bytes for its stand-in; a merge takes about 40 bytes per text that stayed.

After each part the state is written atomically. It lists the valid files and their lengths, so a killed call resumes at
the interrupted part, with the same result.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.atomic import read_json, write_json
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import track

PERMUTATIONS, GRAM = 128, 3
HIGHEST = 0.95  # largest threshold
_PART = 8192  # texts per part, which are compared in memory
_PAIRS = 1 << 15  # pairs compared at a time
_STATE = "state.json"

Hashes = NDArray[np.uint32]  # [texts, PERMUTATIONS]
Keys = NDArray[np.uint64]  # [bands, texts]


def stand_ins(
    texts: Sequence[str], threshold: float = 0.4, seed: int = 0, folder: Path | None = None
) -> NDArray[np.int64]:
    """Return the index of each text's stand-in, [n]; its own index if it stays.

    texts: in order of preference; the first of several near-duplicates stays. folder: a folder used only for the index,
    from which the same call resumes if killed. At the end it contains the result, and the caller must delete it. None:
    a temporary folder. Raises UserError for a threshold outside (0, 0.95].
    """
    from datasketch import MinHashLSH

    if not 0 < threshold <= HIGHEST:  # above HIGHEST the index would have a single band
        raise UserError(f"threshold must be above 0 and at most {HIGHEST}, got {threshold}", "EPS-M062")
    if folder is None:
        with TemporaryDirectory(prefix="near-duplicates-") as place:
            return stand_ins(texts, threshold, seed, Path(place))
    shape = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    index = _Index(folder, (shape.b, shape.r), threshold, len(texts), of=_digest(texts, threshold, seed))
    for hashes in _hashes(texts, seed, index.done):
        keys = _keys(hashes, shape.b, shape.r)
        part = index.nearest(hashes, keys)
        stay = _compare(hashes, keys, part, threshold=threshold, start=index.done)
        index.add(hashes[stay], keys[:, stay], part)
    return index.result()


def _digest(texts: Sequence[str], threshold: float, seed: int) -> str:
    """Return a hash of the texts, the settings and this code, which identifies an index."""
    every = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=16)
    every.update(f"{version('datasketch')} {len(texts)} {threshold} {seed}".encode())
    for text in texts:
        every.update(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return every.hexdigest()


def _hashes(texts: Sequence[str], seed: int, start: int) -> Iterator[Hashes]:
    """Yield the hashes of the texts from index `start` on, one part at a time."""
    from datasketch import MinHash

    rest = map(_grams, islice(texts, start, None))
    every = MinHash.generator(rest, num_perm=PERMUTATIONS, seed=seed + 1, scheme="affine32")
    tracked = track(every, len(texts) - start, "find near-duplicates")
    while part := [sketch.hashvalues for sketch in islice(tracked, _PART)]:
        yield np.stack(part).astype(np.uint32)


def _keys(hashes: Hashes, bands: int, rows: int) -> Keys:
    """Return a hash of each band of each text, [bands, texts]. Equal bands have equal hashes."""
    parts = hashes[:, : bands * rows].reshape(len(hashes), bands, rows).astype(np.uint64)
    keys = np.zeros((len(hashes), bands), np.uint64)
    for row in range(rows):
        keys = (keys ^ parts[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return np.ascontiguousarray(keys.T)


def _compare(hashes: Hashes, keys: Keys, part: NDArray[np.int64], threshold: float, start: int) -> NDArray[np.int64]:
    """Fill in the stand-ins in `part` that are -1, and return the indices of the texts of the part that stay.

    start: index of the part's first text.
    """
    buckets: list[defaultdict[int, list[int]]] = [defaultdict(list) for _ in keys]
    named, stay = keys.T.tolist(), []
    for i in np.flatnonzero(part < 0).tolist():
        mine = [bucket[key] for bucket, key in zip(buckets, named[i], strict=True)]
        others = np.array(sorted({j for members in mine for j in members}), np.int64)
        near = others[(hashes[others] == hashes[i]).mean(axis=1) >= threshold]
        part[i] = start + (near[0] if len(near) else i)
        if not len(near):
            stay.append(i)
            for members in mine:
                members.append(i)
    return np.array(stay, np.int64)


class _Index:
    """An index in a folder: stand-ins of all texts so far; hashes, and keys in sorted runs, of the texts that stayed.

    done: number of texts in the index. of: hash of texts, settings and code; data with another hash is deleted.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], threshold: float, most: int, *, of: str) -> None:
        self._folder, (self._bands, self._rows), self._threshold, self._of = folder, shape, threshold, of
        state = read_json(folder / _STATE) if (folder / _STATE).is_file() else {}
        if state.get("of") != of:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            state = {"done": 0, "stayed": 0, "runs": [], "written": 0}
        self.done, self._count, self._written = state["done"], state["stayed"], state["written"]
        self._runs = [(folder / name, count) for name, count in state["runs"]]  # path and number of texts
        self._numbers = np.full(most + 1, -1, np.int64)  # indices of staying texts; the last entry means none
        self._forget_the_rest()
        before = self.result()
        self._numbers[: self._count] = np.flatnonzero(before == np.arange(len(before)))[: self._count]

    def result(self) -> NDArray[np.int64]:
        """Return the stand-ins of the texts so far."""
        return np.fromfile(self._folder / "stand_ins", np.int64)

    def nearest(self, hashes: Hashes, keys: Keys) -> NDArray[np.int64]:
        """Return the index of each text's first near-duplicate among texts that stayed, [texts]; -1 if none."""
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

    def add(self, hashes: Hashes, keys: Keys, part: NDArray[np.int64]) -> None:
        """Store a part's stand-ins, and the hashes and keys of its texts that stay, and save the state."""
        self._append("stand_ins", part)
        numbers = np.unique(part[part >= self.done])  # texts that stay
        last = self.done + len(part) == len(self._numbers) - 1  # no later part will be compared
        if len(numbers) and not last:
            self._append("hashes", hashes)
            order = keys.argsort(axis=1, kind="stable")
            places = (order + self._count).astype(np.uint32)
            self._numbers[self._count : self._count + len(numbers)] = numbers
            self._count += len(numbers)
            self._write(((keys[band][order[band]], places[band]) for band in range(self._bands)), len(numbers))
            while len(self._runs) > 1 and self._runs[-2][1] <= 2 * self._runs[-1][1]:
                right, left = self._runs.pop(), self._runs.pop()
                self._write(self._merged(left, right), left[1] + right[1])
                for path in {left[0], right[0]} - self._counted:  # files in the state are needed to resume
                    path.unlink()
        self.done += len(part)
        if last:
            self._runs, self._count = [], 0
        runs = [(path.name, count) for path, count in self._runs]
        state = {"of": self._of, "done": self.done, "stayed": self._count, "runs": runs, "written": self._written}
        write_json(state, self._folder / _STATE)
        self._forget_the_rest()

    def _append(self, name: str, values: NDArray[np.generic]) -> None:
        with (self._folder / name).open("ab") as file:
            file.write(np.ascontiguousarray(values).tobytes())

    def _forget_the_rest(self) -> None:
        """Delete files that are not in the state: merged runs, and remains of a killed part."""
        self._counted = {path for path, _ in self._runs}
        for path in set(self._folder.glob("run-*")) - self._counted:
            path.unlink()
        for name, length in (("stand_ins", 8 * self.done), ("hashes", 4 * PERMUTATIONS * self._count)):
            with (self._folder / name).open("ab") as file:
                file.truncate(length)

    def _pairs(self, keys: Keys) -> NDArray[np.uint64]:
        """Return the pairs of a text and a staying text that share a key, encoded as text * 2^32 + place, ascending."""
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
        """Return the sorted keys of one band of a run, and the place of each key's text among texts that stayed."""
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
