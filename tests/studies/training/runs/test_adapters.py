"""Low-rank adapters: the same network as peft's with the same numbers, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs.adapters import adapt
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.general import network, trainable
from tests.support.refusals import refused
from tests.support.tiny_classifiers import SAVE, save_bert_classifier

TEXTS, LABELS = ["a b c", "document of the a b", "d e"], np.array([0, 1, 1])
NOISE = Noise.named(1, "adapters")
LENGTH, RANK = 12, 2
TARGETS = {"bert": ["query", "attention.output.dense"], "gpt2": ["c_attn"]}


@pytest.mark.parametrize("kind", [*SAVE])
def test_they_are_those_of_peft(kind: str, tmp_path: Path) -> None:
    """Both hold the same A and B, none of them 0: the same probabilities, the same gradients by each tensor."""
    peft = pytest.importorskip("peft")
    folder = SAVE[kind](tmp_path)
    ids = Frozen(folder, LENGTH).padded(TEXTS)
    module = network(folder, 2, NOISE)
    before = trainable(module, LENGTH, [""]).probabilities(ids)
    ours = trainable(module, LENGTH, adapt(module, RANK, TARGETS[kind], np.random.default_rng(0)))
    np.testing.assert_allclose(ours.probabilities(ids), before, atol=1e-6)  # B is 0
    assert ours.size == {"bert": 2 * 2 * RANK * 64 + 66, "gpt2": 2 * RANK * (32 + 96) + 64}[kind]
    ours.vector[...] = 0.3 * np.random.default_rng(1).standard_normal(ours.size)
    config = peft.LoraConfig(
        r=RANK, lora_alpha=RANK, target_modules=TARGETS[kind], task_type="SEQ_CLS", fan_in_fan_out=kind == "gpt2"
    )
    theirs = trainable(peft.get_peft_model(network(folder, 2, NOISE), config), LENGTH)
    renamed = {
        name.replace("base_model.model.", "").replace("lora_A.default", "down").replace("lora_B.default", "up")
        .replace("modules_to_save.default.", ""): name
        for name in theirs.shapes
    }  # fmt: skip
    assert {*renamed} == {*ours.shapes}
    for name, tensor in ours.parameters.items():
        theirs.parameters[renamed[name]][...] = tensor
    np.testing.assert_allclose(ours.probabilities(ids), theirs.probabilities(ids), atol=1e-6)
    mine, own = ours.gradients(ids, LABELS), theirs.gradients(ids, LABELS)
    np.testing.assert_allclose(mine.norms(), own.norms(), rtol=1e-4)
    first, other = mine.weighted_sum(np.ones(3)), own.weighted_sum(np.ones(3))
    places = dict(zip(theirs.shapes, np.split(other, np.cumsum(theirs.parts)[:-1]), strict=True))
    np.testing.assert_allclose(first, np.concatenate([places[renamed[name]] for name in ours.shapes]), atol=1e-5)


def test_they_begin_as_the_stream_says_and_change_nothing_else(tmp_path: Path) -> None:
    folder = save_bert_classifier(tmp_path)
    modules: list[Any] = [network(folder, 2, NOISE) for _ in range(2)]
    frozen = {name: tensor.clone() for name, tensor in modules[0].named_parameters()}
    first, second = (
        trainable(module, LENGTH, adapt(module, RANK, ["query"], np.random.default_rng(seed)))
        for seed, module in enumerate(modules)
    )
    assert first.shapes == second.shapes
    assert not np.array_equal(first.vector, second.vector)
    downs = [tensor for name, tensor in first.parameters.items() if ".down." in name]
    assert len(downs) == 2
    assert all(0 < np.abs(down).max() <= 32**-0.5 for down in downs)
    for name, tensor in modules[0].named_parameters():
        if ".base." in name:
            assert torch.equal(tensor, frozen[name.replace(".base", "")])


def test_a_layer_that_the_network_lacks_is_named(tmp_path: Path) -> None:
    module = network(save_bert_classifier(tmp_path), 2, NOISE)
    for target, values in (("c_attn", ("linear layer", "c_attn")), ("querry", ("querry", "query"))):
        with refused("EPS-C022", *values):
            adapt(module, RANK, ["value", target], np.random.default_rng(0))
    with refused("EPS-C022", "classifier"):  # the classifier is trained in full
        adapt(module, RANK, ["classifier"], np.random.default_rng(0))
