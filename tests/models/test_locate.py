"""Models of the hub are fetched by one function: whole, in safetensors, and without a network afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as packed

from epsilometer.models.causal_lm import CausalLM
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import locate, would_download
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.hub import COMMIT, Hub, hub
from tests.support.refusals import refused

NAME = f"nobody/words@{COMMIT}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub(tmp_path / "cache", monkeypatch) as server:
        yield server


@pytest.mark.parametrize(
    ("save", "load"),
    [
        (tiny_models.save_roberta, MaskedLM),
        (tiny_models.save_t5, Seq2Seq),
        (tiny_models.save_bart, Seq2Seq),
        (tiny_models.save_gpt2, CausalLM),
        (tiny_models.save_qwen, CausalLM),
        (tiny_models.save_llama, CausalLM),
        (tiny_models.save_mpnet, Encoder),
    ],
    ids=lambda save: save.__name__,
)
def test_published_architectures_load_from_the_hub_and_then_offline(
    served: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    save: Callable[[Path], Path],
    load: Callable[[str], object],
) -> None:
    served.add("models/nobody/words", save(tmp_path / "made"))
    served.files["models/nobody/words"]["training_args.bin"] = b"a pickle"
    assert would_download(NAME)
    folder = locate(NAME)
    assert not (folder / "training_args.bin").exists()
    assert (folder / "SHA256SUMS").is_file()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not would_download(NAME)
    assert load(NAME)


def test_weights_in_pickles_are_not_fetched(served: Hub, tmp_path: Path) -> None:
    served.files["models/nobody/words"] = {"config.json": b"{}", "dp_bart_pr_plus_ep10.pt": b"pickle" * 1000}
    with refused("EPS-N053"):
        locate(NAME)
    assert served.requests == []


def test_a_model_in_parts_is_there_when_all_of_them_are(served: Hub, tmp_path: Path) -> None:
    parts = {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}
    index = json.dumps({"weight_map": parts}).encode()
    files = {
        "config.json": b"{}",
        "model.safetensors.index.json": index,
        **{part: packed({name: np.zeros(500)}) for name, part in parts.items()},
    }
    served.files["models/nobody/words"] = files
    served.faults[parts["b"]] = "gone"
    with refused("EPS-C087"):
        locate(NAME)
    assert would_download(NAME)  # although weights and a configuration exist
    served.faults.clear()
    folder = locate(NAME)
    assert not would_download(NAME)
    assert sum(name == parts["a"] for name, _ in served.requests) == 1
    (folder / parts["b"]).unlink()
    with refused("EPS-N047"):
        locate(folder)
