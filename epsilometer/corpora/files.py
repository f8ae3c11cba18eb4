"""Tables in local files: Parquet, CSV, TSV, JSON lines, and plain text with one text a line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl

from epsilometer.errors import UserError

_LONGEST = (1 << 31) - 1  # characters of a field; the library's own limit of 131,072 is in the way of long texts


def read(path: Path) -> pl.DataFrame:
    """The table in a file; its suffix says the format.

    Columns of CSV and TSV files are strings, whatever they hold; a plain text file has the one column `text`. Raises
    UserError for a file that is missing, empty, damaged (with the line) or not UTF-8 (with the byte), and for an
    unknown suffix.
    """
    readers = {
        ".parquet": _parquet,
        ".csv": lambda p: _delimited(p, ","),
        ".tsv": lambda p: _delimited(p, "\t"),
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".txt": _lines,
    }
    if path.suffix not in readers:
        raise UserError(f"{path} has the unknown suffix {path.suffix!r}; known: {', '.join(readers)}")
    if not path.is_file():
        raise UserError(f"there is no file {str(path)!r}; check the path")
    if not path.stat().st_size:
        raise UserError(f"{path} is empty; give a file with at least one text")
    return readers[path.suffix](path)


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path} is no readable Parquet file ({error}); write it anew") from error


def _decoded(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8").removeprefix("\ufeff")  # a mark that Excel writes
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}; convert it, for "
            f"instance with `iconv -f latin1 -t utf-8 {path.name}`"
        ) from error


def _delimited(path: Path, delimiter: str) -> pl.DataFrame:
    # The standard library's reader and not polars': that one neither names the line nor sees an unclosed quote.
    csv.field_size_limit(_LONGEST)
    reader = csv.reader(io.StringIO(_decoded(path), newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                raise UserError(
                    f"{path}, line {reader.line_num}: {len(row)} fields where the header has {len(rows[0])}; put a "
                    "field that holds the delimiter between double quotes"
                )
            if row:
                rows.append(row)
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: {error}; close every quoted field, and write a double quote in it twice"
        ) from error
    header = rows[0] if rows else []
    if len(set(header)) < len(header):
        raise UserError(f"{path}: the header names a column twice: {', '.join(header)}; rename one of them")
    return pl.DataFrame(rows[1:], schema=dict.fromkeys(header, pl.String), orient="row")


def _json_lines(path: Path) -> pl.DataFrame:
    text = _decoded(path)
    try:
        return pl.read_ndjson(text.encode(), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        # polars does not say where; the lines are gone through again to find it.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as wrong:
                raise UserError(f"{path}, line {number}: not JSON ({wrong}); write one object a line") from error
            if not isinstance(row, dict):
                raise UserError(f"{path}, line {number}: {type(row).__name__} where an object is due") from error
        raise UserError(
            f"{path}: a column mixes values of unlike kinds ({error}); give each column one kind"
        ) from error


def _lines(path: Path) -> pl.DataFrame:
    # Not splitlines, which also splits at form feeds and other characters that may stand within a text.
    lines = _decoded(path).removesuffix("\n").split("\n")
    return pl.DataFrame({"text": [line.removesuffix("\r") for line in lines]})
