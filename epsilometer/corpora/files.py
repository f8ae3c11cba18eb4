"""Tables in local files: Parquet, CSV, TSV, JSON lines, plain text with one text per line, folders of texts."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from epsilometer.core import json_text, resource_limits
from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed, member, quoted_error
from epsilometer.runtime.progress import note

_LONGEST = (1 << 31) - 1  # most characters of a field; the csv module's default of 131,072 is too small for long texts
_COMPRESSED = (".gz", ".zst")
_CELL = 8  # smallest number of bytes that a cell of a table takes in memory
_SAMPLE = 1 << 16  # number of bytes from which an encoding is guessed
_FEW = 0.3  # largest share of non-ASCII bytes in Western text, and of NUL bytes unless text is UTF-16


@dataclass(frozen=True)
class Layout:
    """The layout of a text file.

    separator: the character between fields; None: according to the suffix. quotes: True if fields may be in double
    quotes. header: True if the first line has the names of the columns; otherwise the columns are named "1", "2", ...
    encoding: a name that Python supports.
    """

    separator: str | None = None
    quotes: bool = True
    header: bool = True
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.separator == "\\t":  # as typed in a shell
            object.__setattr__(self, "separator", "\t")
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise UserError(
                f"separator must be one character, such as ';' or '\\t', got {self.separator!r}", "EPS-D010"
            )
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError):
            raise UserError(
                f"encoding must be a name that Python supports, such as latin-1, got {self.encoding!r}", "EPS-D011"
            ) from None


PLAIN = Layout()
TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")  # formats with columns
_NO_CHARACTER = re.compile(r"\\u(0000|d[89a-f])", re.IGNORECASE)  # JSON escapes for NUL or for a lone surrogate


def suffix(path: Path) -> str:
    """Return the suffix that determines the format: `.csv` for texts.csv.gz."""
    return Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def read(path: Path, layout: Layout = PLAIN) -> pl.DataFrame:
    """Return the table in a file or a folder.

    The suffix of a file determines its format. Columns of CSV and TSV files are strings. A plain text file has one
    column, `text`. A folder of .txt files, with one text each, has the columns `text` and `file`. All formats except
    Parquet may be compressed (.gz, .zst). Raises UserError for an unknown suffix, and for a file that is missing,
    empty, damaged (the error gives the line) or in another encoding (the error gives the byte).
    """
    if path.is_dir():
        return _folder(path, layout)
    if suffix(path) not in _READERS or (path.suffix in _COMPRESSED and suffix(path) == ".parquet"):
        raise UserError(
            f"{path} has the unknown suffix {path.suffix!r}; known: {', '.join(_READERS)}. All but .parquet may "
            f"also end in {' or '.join(_COMPRESSED)}",
            "EPS-D012",
        )
    if not path.is_file():
        raise UserError(f"file {str(path)!r} not found; check the path", "EPS-D013")
    if not path.stat().st_size:
        raise UserError(f"{path} is empty; give a file with at least one text", "EPS-D014")
    return _READERS[suffix(path)](path, layout)


def write(table: pl.DataFrame, path: Path | None, kind: str, layout: Layout = PLAIN, *, private: bool = False) -> bytes:
    """Return the bytes of a table in a format, and write them to `path`, unless it is None.

    The suffix of `path` decides whether the file is compressed. kind: the format, as a suffix. private: True to make
    the file readable by its owner alone.
    """
    out = io.BytesIO()
    if kind == ".parquet":
        table.write_parquet(out)
    elif kind in (".jsonl", ".ndjson", ".json"):
        table.write_ndjson(out)
    else:
        text = io.StringIO()
        separator = layout.separator or _SEPARATORS[kind]
        # Without quotes, a separator inside a text would end the field, so it is replaced by a space.
        writer = csv.writer(
            text,
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if layout.quotes else csv.QUOTE_NONE,
            quotechar='"' if layout.quotes else None,
            lineterminator="\n",
        )
        rows = [["" if cell is None else cell for cell in row] for row in table.iter_rows()]
        if not layout.quotes:
            rows = [[str(cell).replace(separator, " ") for cell in row] for row in rows]
        writer.writerows([table.columns, *rows] if layout.header else rows)
        out.write(text.getvalue().encode(layout.encoding, "replace"))
    if path is not None:
        with whole(path, private=private) as file:
            file.write(_compressed(out.getvalue(), path.suffix))
    return out.getvalue()


def _compressed(plain: bytes, how: str) -> bytes:
    if how == ".gz":
        return gzip.compress(plain, mtime=0)
    if how == ".zst":
        import pyarrow

        return bytes(pyarrow.compress(plain, "zstd", asbytes=True))
    return plain


def _folder(path: Path, layout: Layout) -> pl.DataFrame:
    files = sorted(file for file in path.rglob("*.txt") if file.is_file())
    if not files:
        raise UserError(
            f"the folder {str(path)!r} contains no .txt files; put each text in a .txt file, or give a single file",
            "EPS-D015",
        )
    texts = [_member(file, layout, member(path, file, number)) for number, file in enumerate(files, start=1)]
    return pl.DataFrame({"text": texts, "file": [str(file.relative_to(path)) for file in files]})


def _member(file: Path, layout: Layout, name: str) -> str:
    try:
        raw = content(file)
    except OSError as error:
        raise UserError(
            f"{name} cannot be read ({type(error).__name__}); change its permissions, or remove it", "EPS-D016"
        ) from None
    return _text(raw, layout, name)


def _parquet(path: Path, _: Layout) -> pl.DataFrame:
    import pyarrow
    import pyarrow.parquet as pq

    try:
        about = pq.read_metadata(path)
        stated = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        if max(stated, _CELL * about.num_rows * about.num_columns) > resource_limits.unpacked(path):
            raise resource_limits.too_large(path)
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a Parquet file ({quoted_error(error)}); write it again", "EPS-D017"
        ) from error
    if table.estimated_size() > resource_limits.unpacked(path):  # a file may store equal texts only once
        raise resource_limits.too_large(path)
    return table


def content(path: Path) -> bytes:
    """Return the decompressed content of a file. Raises UserError if decompression fails or exceeds the limit."""
    if path.suffix not in _COMPRESSED:
        return path.read_bytes()
    most = resource_limits.unpacked(path)
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                plain = file.read(most + 1)
        else:
            import pyarrow

            with pyarrow.CompressedInputStream(str(path), "zstd") as stream:
                plain = bytes(stream.read(most + 1))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(
            f"{path} cannot be decompressed ({type(error).__name__}); compress it again", "EPS-D018"
        ) from error
    if len(plain) > most:
        raise resource_limits.too_large(path)
    return plain


def _decoded(path: Path, layout: Layout) -> str:
    return _text(content(path), layout, str(path))


def _text(raw: bytes, layout: Layout, name: str) -> str:
    kind = "UTF-8" if layout.encoding == "utf-8" else layout.encoding
    try:
        text = raw.decode(layout.encoding).removeprefix("\ufeff")  # the byte order mark that Excel writes
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{raw[error.start]:02x} at position {error.start}"
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name} is not {kind}: {wrong} (line {line}); {_encoding(raw, error.start)}", "EPS-D019"
        ) from error
    except UnicodeError:  # raised by encodings of host names
        raise UserError(
            f"{name} is not {kind}; give its encoding (encoding, --layout encoding=...)", "EPS-D020"
        ) from None
    if "\0" in text:
        wide = raw[:_SAMPLE].count(0) > _FEW * len(raw[:_SAMPLE])  # two bytes per character
        remedy = (
            "it looks like UTF-16 (encoding, --layout encoding=utf-16-le or utf-16-be)"
            if wide
            else "remove the binary bytes"
        )
        at = text.index("\0")
        line = text.count("\n", 0, at) + 1
        raise UserError(
            f"{name} is not {kind} text: it contains a NUL at position {at} (line {line}); {remedy}", "EPS-D021"
        )
    return text


def _encoding(raw: bytes, at: int) -> str:
    """Return the remedy for bytes that are not in the stated encoding. at: the position of the first wrong byte."""
    from charset_normalizer import from_bytes

    part = raw[:_SAMPLE] if at < _SAMPLE else raw[raw.rfind(b"\n", 0, at) + 1 :][:_SAMPLE]
    guess = from_bytes(part).best()
    if guess is None:
        return "give its encoding (encoding, --layout encoding=...), such as gb18030 or cp1252"
    # A few non-ASCII letters do not identify a one-byte code page. So assume the most frequent one: Western.
    western = len(str(guess)) == len(part) and sum(byte > 0x7F for byte in part) < _FEW * len(part)
    encoding = "cp1252" if western else guess.encoding
    return f"it looks like {encoding} (encoding, --layout encoding={encoding})"


def _delimited(path: Path, layout: Layout) -> pl.DataFrame:
    # The standard library reads the file: polars reports neither the line of an error nor an unclosed quote.
    csv.field_size_limit(_LONGEST)
    separator = layout.separator or _SEPARATORS[suffix(path)]
    reader = csv.reader(
        io.StringIO(_decoded(path, layout), newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if layout.quotes else csv.QUOTE_NONE,
        strict=True,
    )
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                uneven = (
                    f"{path}, line {reader.line_num}: the row has {len(row)} fields, the first line has {len(rows[0])}"
                )
                raise UserError(f"{uneven}; {_even(separator.join(rows[0]), separator)}", "EPS-D022")
            if row:
                rows.append(row)
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: {error}; close every quoted field and double the quotes within it, or "
            "read quotes as ordinary characters (quotes: false, --layout quotes=false)",
            "EPS-D023",
        ) from error
    if not layout.header:
        rows = [[str(number) for number in range(1, len(rows[0]) + 1)], *rows] if rows else []
    header = rows[0] if rows else []
    if "" in header:
        named = [i for i, name in enumerate(header) if name]
        note(f"{path}: {len(header) - len(named)} of {len(header)} columns have no name in the header and are left out")
        rows = [[row[i] for i in named] for row in rows]
        header = rows[0]
    if twice := [name for number, name in enumerate(header) if name in header[:number]]:
        raise UserError(f"{path}: the header repeats {listed(twice, 'column')}; rename the duplicates", "EPS-D024")
    return pl.DataFrame(rows[1:], schema=dict.fromkeys(header, pl.String), orient="row")


def _even(header: str, separator: str) -> str:
    """Return the remedy for rows with different numbers of fields."""
    mark = next((mark for mark in ";\t|," if mark in header), None)
    if separator not in header and mark is not None:
        return f"its separator may be {mark!r} (separator, --layout separator=...)"
    return (
        "put double quotes around each field that contains the separator, or read quotes as ordinary characters "
        "(quotes: false, --layout quotes=false)"
    )


def is_json_lines(path: Path) -> bool:
    """Return True if the first two lines of a file are JSON objects. The suffix of the file does not matter."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        lines = islice((line for line in file if line.strip()), 2)
        first, second = next(lines, b""), next(lines, b"")
    try:
        return all(isinstance(json_text.load(line), dict) for line in (first, second))
    except ValueError:
        return False


def _json_lines(path: Path, layout: Layout) -> pl.DataFrame:
    text = _decoded(path, layout)
    _check_escapes(text, path)
    try:
        return pl.read_ndjson(text.encode(), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        # polars does not report the line of the error, so search for that line.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json_text.load(line)
            except ValueError as wrong:
                raise UserError(
                    f"{path}, line {number}: not JSON ({wrong}); write one object per line", "EPS-D025"
                ) from error
            if not isinstance(row, dict):
                raise UserError(
                    f"{path}, line {number}: expected an object, got {type(row).__name__}; write one object per line",
                    "EPS-D026",
                ) from error
        raise UserError(
            f"{path}{_mixed(text)}: a column mixes values of different types ({quoted_error(error)}); give each column "
            "one type",
            "EPS-D027",
        ) from error


def _mixed(text: str) -> str:
    """Return ", line 3" for the first line with a value of another type than earlier lines; "" if there is none."""
    kinds: dict[str, type] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        for name, value in (json_text.load(line) if line.strip() else {}).items():
            kind = float if isinstance(value, int) and not isinstance(value, bool) else type(value)
            if value is not None and kinds.setdefault(name, kind) is not kind:
                return f", line {number}"
    return ""


def _check_escapes(text: str, path: Path) -> None:
    """Raise UserError for escapes that polars reads as NUL: half of a surrogate pair, and NUL itself."""
    if not _NO_CHARACTER.search(text):
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not _NO_CHARACTER.search(line):
            continue
        try:
            wrong = json_text.no_text(json_text.load(line))
        except ValueError:  # the reader reports invalid JSON
            continue
        if wrong is not None:
            raise UserError(
                f"{path}, line {number} contains {wrong}; remove the character, or write it whole", "EPS-D028"
            )


def _lines(path: Path, layout: Layout) -> pl.DataFrame:
    # The method splitlines would also split at form feeds and similar characters inside a text.
    lines = _decoded(path, layout).removesuffix("\n").split("\n")
    return pl.DataFrame({"text": [line.removesuffix("\r") for line in lines]})


_SEPARATORS = {".csv": ",", ".tsv": "\t"}
DELIMITED = tuple(_SEPARATORS)  # formats whose fields are separated by a character
_READERS: dict[str, Callable[[Path, Layout], pl.DataFrame]] = {
    ".parquet": _parquet,
    ".csv": _delimited,
    ".tsv": _delimited,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".txt": _lines,
}
