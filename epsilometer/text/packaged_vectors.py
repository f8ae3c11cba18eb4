"""Word vectors in a package of the Python package index: an array of vectors and a table of words in the same order.

A pin is {"package": {...}, "words": {"file", "column", "first"}}. The file that "package" names is the array (.npy).
"file" is the table (.parquet) in the same wheel, and "column" is the table's column of words. "first" is the number of
words to read from the start; without "first", all words are read. Arrays of Python objects are refused, since they are
pickles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from epsilometer.core.component import describe
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import absent
from epsilometer.runtime import packages


class _Words(BaseModel):
    """The part of a pin that describes the table of words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    column: str
    first: PositiveInt | None = None


def read_packaged(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words and vectors [V, d] of a pin. Downloads the package if it is missing.

    Raises UserError for a file that is not such a pin, for a table without the column, and for an array and a table of
    different lengths.
    """
    pin, value = packages.read_pin(path), packages.read_value(path)
    if pin is None or value is None or "words" not in value:
        raise UserError(
            f'{path} is not the pin of word vectors in a package; write {{"package": {{...}}, "words": {{"file": ..., '
            '"column": ...}}',
            "EPS-D079",
        )
    try:
        of = _Words.model_validate(value["words"])
    except ValidationError as error:
        raise UserError(describe(error, f"{path}: words"), "EPS-D080") from None
    array, table = packages.files(pin, [of.file])
    try:
        vectors, words = np.load(array, mmap_mode="r", allow_pickle=False), pl.read_parquet(table)
    except (ValueError, OSError, EOFError, pl.exceptions.PolarsError) as error:
        raise UserError(
            f"{pin}: {pin.file!r} and {of.file!r} are not an array (.npy) and a table (.parquet) "
            f"({type(error).__name__}); state other files in the pin",
            "EPS-D081",
        ) from None
    if of.column not in words.columns:
        raise absent(f"column of words in {of.file}", of.column, words.columns)
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise UserError(
            f"{pin}: {of.file!r} has {len(words):,} words, but the array of vectors has the shape {vectors.shape}; "
            "state files that belong together",
            "EPS-D082",
        )
    some = words[of.column].cast(pl.String).head(of.first or len(words))
    return some.fill_null("").to_list(), np.asarray(vectors[: len(some)], np.float32)
