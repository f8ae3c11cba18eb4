"""A token classifier in ONNX with a fixed label for each word, written without the library onnx."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

FOLDER = "small_talk/model"


def files(labels: Mapping[str, str], positions: int = 64) -> dict[str, bytes]:
    """Return the files of a wheel. labels: by word, such as {"ann": "B-GIVEN_NAME"}; other words are "O"."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    names = ["O", *dict.fromkeys(labels.values())]
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[CLS]", "[SEP]", *labels])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    logits = np.zeros((len(vocabulary), len(names)), np.float32)
    for word, i in vocabulary.items():
        logits[i, names.index(labels.get(word, "O"))] = 9
    config = {"id2label": {str(i): name for i, name in enumerate(names)}, "max_position_embeddings": positions}
    return {
        f"{FOLDER}/config.json": json.dumps(config).encode(),
        f"{FOLDER}/tokenizer.json": tokenizer.to_str().encode(),
        f"{FOLDER}/onnx/model_q4.onnx": _model(logits),
    }


def _model(table: np.ndarray) -> bytes:
    """Return a ModelProto with logits = Gather(table, input_ids)."""
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, "logits") + _text(4, "Gather")
    tensor = b"".join(_number(1, size) for size in table.shape) + _number(2, 1) + _text(8, "table")
    tensor += _bytes(9, table.astype("<f4").tobytes())
    graph = _bytes(1, node) + _text(2, "tiny") + _bytes(5, tensor)
    graph += _bytes(11, _value("input_ids", 7, [1, "n"])) + _bytes(12, _value("logits", 1, [1, "n", table.shape[1]]))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 17))


def _value(name: str, kind: int, shape: list[int | str]) -> bytes:
    sizes = (_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    of_shape = b"".join(_bytes(1, size) for size in sizes)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, of_shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
