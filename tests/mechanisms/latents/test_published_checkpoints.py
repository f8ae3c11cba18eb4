"""The page's code that converts a published checkpoint of DP-BART-PR+ to a folder with safetensors, on a small model.

The checkpoint has the form that the reference code writes (trusthlt/dp-bart-private-rewriting e31c972, experiments.py
and models/autoencoders/dp_bart.py): the state of a module whose part `model` is a BART with a separate head, and the
state of the optimiser.
"""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.dp_bart import DPBART
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.places import ROOT

(SNIPPET,) = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/how-to/published-grid.md").read_text(), re.MULTILINE | re.DOTALL
)
OUT = "../shared/models/dp-bart-pr-plus-10"
PRUNED = [0, 3, 5, 31]
Weights = dict[str, torch.Tensor]


@pytest.fixture
def bart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for facebook/bart-base, whose head is its word embeddings; work goes on in a folder beside it."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tiny_models.save_bart(tmp_path / "bart")


def trained(bart: Path) -> Weights:
    """Weights that differ everywhere from those that training began with, those of the head most."""
    start = Seq2Seq(bart).network.state_dict()
    torch.manual_seed(0)
    return {
        name: weight + 0.1 * torch.randn(weight.shape) for name, weight in start.items() if "lm_head" not in name
    } | {"lm_head.weight": torch.randn(start["lm_head.weight"].shape)}


def save(weights: Weights) -> None:
    """The two files, as the reference code saves them."""
    parameter = torch.nn.Parameter(weights["lm_head.weight"].clone())
    optimiser = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimiser.step()
    state = {f"model.{name}": weight for name, weight in weights.items()}
    torch.save(
        {"checkpoint_epoch": 3, "checkpoint_early_stopping": 0, "model_state_dict": state}
        | {"optimizer_state_dict": optimiser.state_dict()},
        "dp_bart_pr_plus_ep10.pt",
    )
    torch.save(torch.tensor(PRUNED), "k_prune_neurons_iter5.pt")


def convert(bart: Path) -> None:
    """Run the lines of the page, with another BART."""
    assert SNIPPET.count('"facebook/bart-base"') == 1
    exec(compile(SNIPPET.replace('"facebook/bart-base"', repr(str(bart))), "page", "exec"), {})


def test_a_checkpoint_becomes_a_model_that_rewrites(bart: Path) -> None:
    """Every weight is the checkpoint's, in the folder and in the loaded model; the mechanism takes the record."""
    weights = trained(bart)
    save(weights)
    convert(bart)
    on_disk = load_file(Path(OUT, "model.safetensors"))
    model = Seq2Seq(OUT)
    for name, weight in weights.items():
        assert torch.equal(model.network.state_dict()[name], weight), name
        assert torch.equal(on_disk[name], weight), name
    assert not torch.equal(weights["lm_head.weight"], weights["model.shared.weight"])
    prompt = np.array([[8, 9, 10, 1]])
    logits, _ = model.read(prompt)
    states = model.network.model(
        input_ids=torch.from_numpy(prompt), decoder_input_ids=torch.tensor([[model.start]])
    ).last_hidden_state[:, -1]
    expected = states @ weights["lm_head.weight"].T + weights["final_logits_bias"]
    assert torch.allclose(logits, expected[:, model.outputs], atol=1 / 2048 + 1e-5)  # rounded to 1/1024
    mechanism = DPBART(resource=Path(OUT), variant="pr_plus")
    assert set(range(32)) - set(mechanism.dimensions.tolist()) == set(PRUNED)
    assert len(mechanism.rewrite(["a b c", "d"], 10_000.0, Noise.named(2, "x")).texts) == 2
    assert json.loads(Path(OUT, "pruning.json").read_text())["epsilon"] == 10


@pytest.mark.parametrize("change", ["lacking", "unknown"])
def test_other_names_are_said(bart: Path, change: str) -> None:
    weights = trained(bart)
    name = "model.encoder.layers.1.fc1.bias"
    bias = weights.pop(name)
    save(weights if change == "lacking" else weights | {name: bias, "another": bias})
    with pytest.raises(RuntimeError, match=re.escape(name) if change == "lacking" else "another"):
        convert(bart)
    assert not Path(OUT).exists()


class Runs:
    """Pickled: a call of `open` that leaves a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("ran", "w")


def test_a_checkpoint_with_a_program_in_it_is_refused(bart: Path) -> None:
    save(trained(bart))
    torch.save({"model_state_dict": {"model.lm_head.weight": Runs()}}, "dp_bart_pr_plus_ep10.pt")
    with pytest.raises(pickle.UnpicklingError):
        convert(bart)
    assert not Path("ran").exists()
    torch.load("dp_bart_pr_plus_ep10.pt", weights_only=False)
    assert Path("ran").exists()  # it would have
