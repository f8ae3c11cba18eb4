"""Training text as token numbers, in order of length, so that a batch is a range of rows of similar length."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.ragged import Ragged

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Row = tuple[NDArray[np.int64], ...]  # an array of token numbers for each column
CHARACTERS = 240  # longest text; longer ones are omitted
PIECES = range(3, 65)  # allowed number of tokens in a text
HELD_OUT = 200  # one text in this number is never trained on

_FORMATS = {
    1: "a UTF-8 text file with one text on each line (.txt or .txt.xz)",
    2: "a UTF-8 text file with one pair on each line, source and paraphrase separated by a tab (.tsv or .tsv.xz)",
}


@dataclass(frozen=True)
class Rows:
    """Token numbers of rows of one column (lines) or two (pairs), in ascending order of total length."""

    columns: tuple[Ragged, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, number: int) -> Row:
        return tuple(column.row(number).astype(np.int64) for column in self.columns)

    def batch(self, generator: np.random.Generator, tokens: int) -> list[Row]:
        """Return adjacent rows around a row drawn uniformly, with about this number of tokens in total."""
        centre = int(generator.integers(len(self)))
        count = min(len(self), max(2, tokens // sum(map(len, self[centre]))))
        first = min(max(0, centre - count // 2), len(self) - count)
        return [self[i] for i in range(first, first + count)]

    def spread(self, count: int) -> list[Row]:
        """Return count rows (or all, if there are fewer), evenly spaced by rank of length."""
        return [self[int(i)] for i in np.linspace(0, len(self) - 1, min(count, len(self)))]


def read(path: Path, columns: int, tokenizer: Tokenizer, cache: Path) -> tuple[Rows, Rows]:
    """Return the rows to train on, and those held out: one in `HELD_OUT`, by a hash of the first column.
    columns: 1 for lines, 2 for pairs. Texts with too few or too many tokens are omitted. The token numbers are stored
    in the cache folder, by the hashes of file and tokeniser. Raises UserError if the file is missing, has another
    format, or has too few texts.
    """
    key = hashlib.blake2b(f"{digest(path, columns)} {tokenizer.to_str()} {CHARACTERS} {PIECES}".encode(), digest_size=8)
    stored = cache / f"texts-{key.hexdigest()}.npz"
    if not stored.is_file():
        _store(path, columns, tokenizer, stored)
    arrays = np.load(stored, allow_pickle=False)
    sides = [
        Rows(tuple(Ragged(arrays[f"{side}{i}.values"], arrays[f"{side}{i}.offsets"]) for i in range(columns)))
        for side in ("train", "held")
    ]
    if min(map(len, sides)) < 2:
        raise UserError(
            f"{path} has too few texts of {PIECES.start} to {PIECES.stop - 1} tokens; expected {_FORMATS[columns]}"
        )
    return sides[0], sides[1]


def texts(path: Path, columns: int) -> Iterator[tuple[str, ...]]:
    """Yield the file's rows with at most `CHARACTERS` in a text. Raises UserError for a missing or malformed file."""
    try:
        with _open(path, columns) as file:
            for number, line in enumerate(file, 1):
                row = tuple(line.rstrip("\n").split("\t")) if columns > 1 else (line.rstrip("\n"),)
                if len(row) != columns:
                    raise UserError(f"{path}, line {number}: {len(row)} columns; expected {_FORMATS[columns]}")
                if all(row) and max(map(len, row)) <= CHARACTERS:
                    yield row
    except (UnicodeDecodeError, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); expected {_FORMATS[columns]}") from error


def _open(path: Path, columns: int) -> IO[str]:
    if not path.is_file():
        raise UserError(f"{path} is not a file; expected {_FORMATS[columns]}")
    return lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8")


def digest(path: Path, columns: int) -> str:
    """Return a hash of the file's content. Raises UserError if the file is missing."""
    with _open(path, columns):
        pass  # so that the error for a missing file is the same everywhere
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _store(path: Path, columns: int, tokenizer: Tokenizer, stored: Path) -> None:
    """Tokenise the file, and write a pair of arrays for each side and column."""
    sides: dict[str, list[list[list[int]]]] = {"train": [], "held": []}
    rows = texts(path, columns)
    while part := list(islice(rows, 20_000)):
        flat = tokenizer.encode_batch([text for row in part for text in row], add_special_tokens=False)
        for i, row in enumerate(part):
            ids = [encoding.ids for encoding in flat[i * columns : (i + 1) * columns]]
            if all(len(column) in PIECES for column in ids):
                sides["held" if crc32(row[0].encode()) % HELD_OUT == 0 else "train"].append(ids)
    arrays: dict[str, NDArray[np.generic]] = {}
    for side, encoded in sides.items():
        encoded.sort(key=lambda row: sum(map(len, row)))
        for i in range(columns):
            ragged = Ragged.of([row[i] for row in encoded])
            arrays |= {f"{side}{i}.values": ragged.values.astype(np.uint16), f"{side}{i}.offsets": ragged.offsets}
    with whole(stored) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
