"""The typed tables that stages exchange: columns, validation, and atomically written Parquet files."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epsilometer.core.atomic import absent, damaged, read_json, whole, write_json, write_text
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored

__all__ = [
    "ArrayWriter",
    "Schema",
    "Writer",
    "at_epsilon",
    "check",
    "read",
    "read_json",
    "write",
    "write_array",
    "write_json",
    "write_text",
]

Schema = Mapping[str, pl.DataType | type[pl.DataType]]


_ROWS = 1 << 16  # rows per row group; fixed, so that the file does not depend on the number of rows per call


def check(table: pl.DataFrame, schema: Schema, name: str) -> pl.DataFrame:
    """Return the table if it has the schema's columns and types; else raise UserError. Other columns are allowed."""
    for column, dtype in schema.items():
        if column not in table.columns:
            raise UserError(f"{name} has no column {column!r}; its columns are {', '.join(table.columns)}", "EPS-C063")
        if table.schema[column] != dtype:
            raise UserError(f"{name}.{column} must be {dtype}, got {table.schema[column]}", "EPS-C064")
    return table


def read(path: Path | str, schema: Schema) -> pl.DataFrame:
    """Read a stage's table. Raises UserError with the path for a missing or damaged file, or for another schema."""
    try:
        table = pl.read_parquet(path)
    except FileNotFoundError:
        raise absent(path) from None
    except Exception as error:  # a Parquet reader may raise anything on damaged bytes
        raise damaged(path, error) from error
    return check(table, schema, str(path))


def at_epsilon(table: pl.DataFrame, epsilon: float | None) -> pl.DataFrame:
    """Return the rows of a stored table at one budget; NO_BUDGET or None selects the rows without a budget."""
    return table.filter(pl.col("epsilon").eq_missing(pl.lit(stored(epsilon), pl.Float64)))


class Writer:
    """Writer of a table in pieces. The file appears under its name only after everything is written.

    Use as a context manager; an exception inside leaves no file behind.
    """

    def __init__(self, path: Path | str, schema: Schema) -> None:
        self.path, self.schema = Path(path), schema
        self._pending: list[pl.DataFrame] = []
        self._rows = 0
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> Writer:
        self._opened = ExitStack()
        self._out = self._opened.enter_context(whole(self.path))
        self._opened.push(self._finish)
        return self

    def write(self, table: pl.DataFrame) -> None:
        """Append rows; a NaN epsilon (`guarantees.NO_BUDGET`) becomes null."""
        if "epsilon" in table.columns:
            table = table.with_columns(pl.col("epsilon").fill_nan(None))
        self._pending.append(check(table, self.schema, self.path.name))
        self._rows += len(table)
        while self._rows >= _ROWS:
            self._flush(_ROWS)

    def _flush(self, rows: int) -> None:
        pending = pl.concat(self._pending) if self._pending else pl.DataFrame(schema=self.schema)
        arrow = pending.head(rows).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._file is None:
            self._file = pq.ParquetWriter(self._out, arrow.schema, compression="zstd")
        self._file.write_table(arrow, row_group_size=_ROWS)
        self._pending, self._rows = [pending.slice(rows)], max(0, self._rows - rows)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and (self._rows or self._file is None):
            self._flush(self._rows)
        if self._file is not None:
            self._file.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)


def write(table: pl.DataFrame, path: Path | str, schema: Schema) -> None:
    """Write a whole table atomically."""
    with Writer(path, schema) as writer:
        writer.write(table)


def write_array(array: NDArray[Any], path: Path | str) -> None:
    """Write an array as .npy atomically."""
    with whole(path) as file:
        try:
            np.save(file, array, allow_pickle=False)
        except OSError as error:  # numpy's message states the bytes written, not the cause
            raise OSError(error.errno or errno.ENOSPC, os.strerror(error.errno or errno.ENOSPC), str(path)) from error


class ArrayWriter:
    """Writer of a float32 array [rows, columns] as .npy, with rows in any order. The file appears at the end.

    Use as a context manager; an exception inside leaves no file behind. The array is on disk, not in memory. The first
    rows written determine the number of columns. If no rows are written, no file is made.
    """

    def __init__(self, path: Path | str, rows: int) -> None:
        self.path, self.rows = Path(path), rows
        self._array: np.memmap[Any, np.dtype[np.float32]] | None = None

    def __enter__(self) -> ArrayWriter:
        self._opened = ExitStack()
        return self

    def write(self, rows: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Write values [m, columns] to the rows with these numbers [m]."""
        if self._array is None:
            self._array = _mapped(self._opened.enter_context(whole(self.path)), (self.rows, values.shape[1]))
            self._opened.callback(self._array.flush)
        if values.shape[1] != self._array.shape[1]:
            raise UserError(
                f"the mechanism returned latents of lengths {values.shape[1]} and {self._array.shape[1]}; return "
                "vectors of one length for all texts",
                "EPS-C065",
            )
        self._array[rows] = values

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._array = None
        self._opened.__exit__(kind, error, trace)


def _mapped(file: BinaryIO, shape: tuple[int, int]) -> np.memmap[Any, np.dtype[np.float32]]:
    """Return an array of float32 that is mapped to this empty file, in the .npy format."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    file.flush()
    start = file.tell()
    if hasattr(os, "posix_fallocate"):  # otherwise a disk that fills up later kills the process by SIGBUS
        os.posix_fallocate(file.fileno(), start, max(1, math.prod(shape) * np.dtype(np.float32).itemsize))
    return np.memmap(file, np.float32, "r+", start, shape)
