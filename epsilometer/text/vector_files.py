"""Readers of word vectors: word2vec's text and binary formats, GloVe's text format, and transformer checkpoints.

The format is detected from the content of a file. No pickle is loaded, and no model code is run.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.text.words import words as words_of

_HEAD = 1 << 16  # bytes of a file that are read to detect its format
_CHUNK = 1 << 22  # bytes of a binary file in memory at a time
_LONGEST = 1 << 12  # maximum bytes of a word in a binary file; if no space follows within them, the file is damaged
_EMBEDDINGS = tuple(  # the usual names of a transformer's input embeddings
    f"{name}.weight" for name in ("word_embeddings", "tok_embeddings", "shared", "wte", "embed_in", "embed_tokens")
)


def read_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words and vectors [V, d] of a file in word2vec's text or binary format, or in GloVe's format.

    Raises UserError, with the number of the line or word, if the file is damaged or in another format.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if re.match(rb"\x80[\x02-\x05]", head):
        raise UserError(
            f"{path} is a pickle, as written by gensim's save(), which can run code and is not read; load it in gensim "
            "and write its keyed vectors with save_word2vec_format(path, binary=True)",
            "EPS-D055",
        )
    first, _, rest = head.partition(b"\n")
    header = _header(first)
    if header and not _is_text(rest.partition(b" ")[2][: 4 * header[1]]):
        return _read_binary(path, *header)
    if b"\0" in head:
        raise UserError(
            f"{path} is binary, but neither an npz archive nor word2vec's binary format (first line: 'words "
            "dimensions'); unpack it if it is compressed, or give npz, word2vec or GloVe in UTF-8",
            "EPS-D056",
        )
    return _read_text(path)


def read_embeddings(folder: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words [V] among a checkpoint's tokens, in the order of the ids, and the input embeddings [V, d].

    folder: contains the weights (model.safetensors, whole or in shards) and vocab.txt or tokenizer.json. Only whole
    words and numbers are returned: ASCII tokens that `epsilometer.text.words.words` returns unchanged. If the tokeniser
    marks the starts of words, only marked tokens are returned, without the mark. If several tokens give the same word,
    the token with the lowest id counts. Raises UserError if files are missing or do not belong together.
    """
    tokens, mark = _tokens(folder)
    words: dict[str, int] = {}
    for token, i in sorted(tokens, key=lambda entry: entry[1]):
        word = token.removeprefix(mark)
        if token.startswith(mark) and word.isascii() and words_of(word) == [word]:
            words.setdefault(word, i)
    name, matrix = _embeddings(folder)
    if max(words.values(), default=0) >= len(matrix):
        raise UserError(
            f"{folder}: the vocabulary has more tokens than the {len(matrix)} rows of {name}; give the weights and the "
            "tokeniser that they were trained with",
            "EPS-D057",
        )
    return list(words), matrix[list(words.values())]


def _header(line: bytes) -> tuple[int, int] | None:
    """Return the numbers of words and dimensions in word2vec's first line; None if the line does not state them."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 16 for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _is_text(part: bytes) -> bool:
    """Return True if the bytes are UTF-8 without control characters. The last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(part)
    except UnicodeDecodeError:
        return False
    return not re.search(rb"[\0-\x08\x0e-\x1f\x7f]", part)


def _read_text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Read word2vec or GloVe text. Some GloVe words contain spaces, so only a line's last d fields are its numbers."""
    words: list[str] = []
    numbers = array("f")
    count, dimensions = None, 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                if header := _header(line):
                    count, dimensions = header
                    continue
                dimensions = len(line.split()) - 1
            word, *values = line.rsplit(None, dimensions) if line.strip() else [b""]
            try:
                if len(values) != dimensions or not dimensions or _ends_in_number(word):
                    expected = f"{dimensions} numbers, as in the first line" if dimensions else "numbers"
                    fields = len(line.split())
                    raise ValueError(f"expected a word and {expected}, got {fields} field{'s' * (fields != 1)}")
                words.append(word.decode())
                numbers.extend(map(float, values))
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}: the word {word[:40]!r} is not UTF-8; convert the file to UTF-8", "EPS-D058"
                ) from error
            except ValueError as error:
                raise UserError(
                    f"{path}, line {number}: {error}; fix the line or fetch the file again", "EPS-D059"
                ) from error
    if count is not None and count != len(words):
        raise UserError(
            f"{path}: the first line states {count} words, the file contains {len(words)}; fetch it again", "EPS-D060"
        )
    if not words:
        raise UserError(f"{path} contains no word vectors; give npz, word2vec or GloVe", "EPS-D061")
    return words, np.frombuffer(numbers, np.float32).reshape(len(words), dimensions)


def _ends_in_number(word: bytes) -> bool:
    """Return True if a word contains spaces and its last part is a number. The line then has too many numbers."""
    parts = word.split()
    try:
        float(parts[-1] if len(parts) > 1 else b"no number")
    except ValueError:
        return False
    return True


def _read_binary(path: Path, count: int, dimensions: int) -> tuple[list[str], NDArray[np.float32]]:
    """Read word2vec's binary format: a first line, then each word, a space and its float32 values (little-endian)."""
    size, whole = 4 * dimensions, path.stat().st_size
    # The file's size limits the number of rows, even if the first line states more.
    matrix = np.empty((min(count, whole // size), dimensions), np.float32)
    words: list[str] = []
    announced = f"{path}: the first line states {count} words of {dimensions} dimensions"
    with path.open("rb") as file:
        file.readline()
        buffer, at = b"", 0
        for number in range(1, count + 1):
            if len(buffer) - at < _LONGEST + size:
                buffer, at = buffer[at:] + file.read(_CHUNK + min(size, whole)), 0
            space = buffer.find(b" ", at, at + _LONGEST)
            start, end = space + 1, space + 1 + size
            if (space < 0 and len(buffer) - at < _LONGEST) or end > len(buffer):
                raise UserError(
                    f"{announced}, but the file ends within word {number}: it is truncated, or these numbers are "
                    "wrong; fetch it again",
                    "EPS-D062",
                )
            word = buffer[at:space].lstrip(b"\n")  # some writers end a vector with a line feed
            try:
                if space < 0:
                    raise ValueError(f"no space within {_LONGEST} bytes")
                words.append(word.decode())
            except ValueError as error:
                raise UserError(
                    f"{announced}, but word {number} is not UTF-8 followed by a space ({word[:20]!r}: {error}): the "
                    "numbers are wrong, or the file is damaged; fetch it again, or write it in UTF-8",
                    "EPS-D063",
                ) from error
            matrix[number - 1] = np.frombuffer(buffer, "<f4", dimensions, start)
            at = end
        if (buffer[at:] + file.read(_LONGEST)).strip(b"\n"):
            raise UserError(f"{announced}, but the file continues after word {count}; fetch it again", "EPS-D064")
    return words, matrix


def _tokens(folder: Path) -> tuple[list[tuple[str, int]], str]:
    """Return a checkpoint's tokens with their ids, and the prefix of tokens that start a word ("" if there is none)."""
    try:
        if (folder / "vocab.txt").is_file():
            lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
            return list({token: i for i, token in enumerate(lines) if token}.items()), ""
        model = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
        vocabulary = model["vocab"]
        if isinstance(vocabulary, dict):
            tokens = [(str(token), int(i)) for token, i in vocabulary.items()]
        else:
            tokens = [(str(token), i) for i, (token, _) in enumerate(vocabulary)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder} has no vocab.txt and no tokenizer.json with a vocabulary ({error!r}); give a checkpoint's "
            "folder, with the files written by save_pretrained() of its tokeniser",
            "EPS-D065",
        ) from error
    if isinstance(vocabulary, dict) and "merges" not in model:  # WordPiece, which does not mark the starts of words
        return tokens, ""
    counts = {mark: sum(token.startswith(mark) for token, _ in tokens) for mark in "▁Ġ"}
    mark = max(counts, key=counts.__getitem__)
    return tokens, mark if counts[mark] else ""


def _embeddings(folder: Path) -> tuple[str, NDArray[Any]]:
    """Return the name and the matrix of a checkpoint's input embeddings."""
    from safetensors import SafetensorError, safe_open

    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    try:
        if index.is_file() and not path.is_file():
            path = index
            files = {str(n): folder / part for n, part in json.loads(index.read_text("utf-8"))["weight_map"].items()}
        else:
            with safe_open(path, framework="numpy") as tensors:
                files = dict.fromkeys(tensors.keys(), path)
        # If encoder and decoder have input embeddings, the encoder's are used.
        names = [(ending, "decoder" in n, n) for n in files for ending, e in enumerate(_EMBEDDINGS) if n.endswith(e)]
        name = min(names)[2] if names else ""
        if name:
            path = files[name]
            return name, _tensor(path, name)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} cannot be read ({error!r}); give a checkpoint's folder written by save_pretrained(), with weights "
            "in safetensors, whole or in shards",
            "EPS-D066",
        ) from error
    raise UserError(
        f"{path} has no input embeddings: no tensor's name ends in one of {', '.join(_EMBEDDINGS)}; "
        "give the checkpoint of another model",
        "EPS-D067",
    )


def _tensor(path: Path, name: str) -> NDArray[Any]:
    """Return one tensor of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as tensors:
        if tensors.get_slice(name).get_dtype() in ("F64", "F32", "F16"):
            return tensors.get_tensor(name)
    with safe_open(path, framework="pt") as tensors:  # NumPy has no bfloat16
        return tensors.get_tensor(name).float().numpy()
