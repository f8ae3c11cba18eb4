"""Stored vectors of the rewrites that a cell's attack encoded, so that later stages need not encode them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.cells.tables import encoded_path
from epsilometer.text.vectors import read_arrays, write_arrays

_MOST = 1 << 14  # maximum number of stored texts of a cell: 25 MB


def write(cell: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Write data/encoded/<cell>.npz: vectors by the hashes of their texts; empty for more than _MOST texts."""
    by_hash = {_hash(text): vector for text, vector in vectors.items()} if len(vectors) <= _MOST else {}
    order = sorted(by_hash)
    hashes = np.frombuffer(b"".join(order), np.uint8).reshape(len(order), -1 if order else 0)
    rows = np.stack([by_hash[each] for each in order]) if order else np.empty((0, 0), np.float32)
    write_arrays(encoded_path(cell), hashes=hashes, vectors=rows)


def read(cell: str, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Return the stored vectors of these texts."""
    hashes, vectors = read_arrays(encoded_path(cell), "hashes", "vectors")
    place = {row.tobytes(): i for i, row in enumerate(hashes)}
    return {text: vectors[place[each]] for text in dict.fromkeys(texts) if (each := _hash(text)) in place}


def of_cells(cells: Iterable[str], texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of these texts, as far as one of these cells has stored them."""
    return {text: vector for cell in cells for text, vector in read(cell, texts).items()}


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
