"""Damaged files in model folders without checksums: one message that names the file, before memory is allocated."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from epsilometer.core.errors import UserError
from epsilometer.models.causal_lm import CausalLM
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import loading, locate
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.refusals import refused

HEADER = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def weights(header: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(8)


WEIGHTS = {
    "length": weights(b"{}", 1 << 63),
    "nested": weights(b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "empty": b"",
    "text": b"version https://git-lfs.github.com/spec/v1",
    "shape": weights(json.dumps({"a": {**HEADER["a"], "shape": [3]}}).encode()),
    "product": weights(json.dumps({"a": {**HEADER["a"], "shape": [1 << 40, 1 << 40]}}).encode()),
    "offsets": weights(json.dumps({"a": {**HEADER["a"], "data_offsets": [8, 0]}}).encode()),
}
TOKENIZERS = {
    "garbage": b"\x00\xff garbage",
    "nested": b"[" * 100_000,
    "other": b'{"version": "1.0"}',
    "expression": json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False},
            "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
        }
    ).encode(),
}
CONFIGS = {
    "garbage": b"garbage",
    "nested": b"[" * 100_000,
    "list": b"[]",
    "digits": b'{"hidden_size": ' + b"9" * 6000 + b"}",
}
LOADERS = [
    (tiny_models.save_bert, Encoder),
    (tiny_models.save_roberta, MaskedLM),
    (tiny_models.save_gpt2, CausalLM),
    (tiny_models.save_t5, Seq2Seq),
]


@pytest.mark.parametrize("wrong", WEIGHTS)
def test_weights_whose_header_is_damaged(wrong: str, tmp_path: Path) -> None:
    folder = tiny_models.save_bert(tmp_path)
    (folder / "model.safetensors").write_bytes(WEIGHTS[wrong])
    with refused("EPS-N048"):
        locate(folder)


@pytest.mark.parametrize("wrong", CONFIGS)
def test_a_configuration_that_is_none(wrong: str, tmp_path: Path) -> None:
    folder = tiny_models.save_bert(tmp_path)
    (folder / "config.json").write_bytes(CONFIGS[wrong])
    with refused("EPS-N050" if wrong == "list" else "EPS-N049", "config.json"):
        locate(folder)


@pytest.mark.parametrize("name", ["hidden_size", "vocab_size", "intermediate_size", "num_hidden_layers"])
def test_a_configuration_of_another_model_is_refused_before_room_is_made_for_it(name: str, tmp_path: Path) -> None:
    folder = tiny_models.save_bert(tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: 10**9}))
    with refused("EPS-N051", "config.json", name, "1000000000"):
        locate(folder)


@pytest.mark.parametrize(("save", "load"), LOADERS, ids=lambda save: save.__name__)
@pytest.mark.parametrize("wrong", TOKENIZERS)
def test_a_tokeniser_that_cannot_be_read(
    save: Callable[[Path], Path], load: Callable[[Path], object], wrong: str, tmp_path: Path
) -> None:
    folder = save(tmp_path)
    (folder / "tokenizer.json").write_bytes(TOKENIZERS[wrong])
    with pytest.raises(UserError) as caught:
        load(folder)
    assert caught.value.code in {"EPS-N039", "EPS-N048", "EPS-N056"}  # which one depends on the library's error
    assert str(folder) in str(caught.value)


def test_a_panic_of_a_library_is_an_error_and_ctrl_c_is_none(tmp_path: Path) -> None:
    class PanicException(BaseException):
        """As that of PyO3: no Exception."""

    with refused("EPS-N048"), loading(tmp_path):
        raise PanicException
    with pytest.raises(KeyboardInterrupt), loading(tmp_path):
        raise KeyboardInterrupt
