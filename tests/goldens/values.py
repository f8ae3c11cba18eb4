"""Results as short JSON in which the first difference can still be named."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

TIMED = {"seconds", "words_a_second"}  # fields that depend on the clock
_SHOWN = 4  # values at the start of a long list


def digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:12]


def compact(values: Any) -> Any:
    """Return JSON values with long lists of plain values as their first values, length and digest.

    A list of records becomes a record of lists, and a float its `repr`, which is exact.
    """
    if isinstance(values, list) and values and all(isinstance(value, dict) for value in values):
        return compact({name: [value.get(name) for value in values] for value in values for name in value})
    if isinstance(values, dict):
        return {str(name): compact(value) for name, value in values.items()}
    text = repr(values)
    if isinstance(values, list | str) and len(text) > 100:
        return f"{text[:40] if isinstance(values, str) else values[:_SHOWN]} {len(values)} {digest(text)}"
    return text


def of_array(array: np.ndarray) -> str:
    return f"{array.dtype} {list(array.shape)} {array.ravel()[:_SHOWN].tolist()} {digest(array.tobytes())}"


def of_file(path: Path) -> Any:
    """Return the values of a Parquet file by column, the arrays of a NumPy file, or the digest of other content."""
    if path.suffix == ".parquet":
        return of_parquet(path)
    if path.suffix == ".npy":
        return of_array(np.load(path, allow_pickle=False))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {name: of_array(arrays[name]) for name in arrays.files}
    return digest(path.read_bytes())


def of_parquet(path: Path) -> dict[str, str]:
    """Return type, length and digest of each column that holds no times; floats count by all bits, but NaN is NaN."""
    table = pl.read_parquet(path)
    return {
        column.name: f"{column.dtype} {column.len()} {digest(repr(column.to_list()))}"
        for column in table.iter_columns()
        if column.name not in TIMED
    }


def flat(values: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the leaves of nested records by their path."""
    if not isinstance(values, dict) or not values:
        return {path: values}
    return {place: leaf for name, value in values.items() for place, leaf in flat(value, (*path, name)).items()}
