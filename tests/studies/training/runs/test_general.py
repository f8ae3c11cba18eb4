from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from epsilometer.accounting.schedule import Poisson
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs import general
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.general import MicroGradients, NetworkHead, network, trainable
from epsilometer.studies.training.runs.gradients import DenseGradients, ExampleGradients
from epsilometer.studies.training.runs.heads import last_layers
from epsilometer.studies.training.runs.noise import GaussianNoise
from epsilometer.studies.training.runs.private import Settings, train
from tests.support.refusals import refused
from tests.support.tiny_classifiers import SAVE, save_bert_classifier, save_gpt2_classifier
from tests.support.tiny_models import save_qwen

TEXTS = ["a b c", "document of the a b c d e f g h h h h a", "d e", " a b c b", "g"]
LABELS = np.array([0, 1, 1, 0, 1])
NOISE = Noise.named(1, "general")
LENGTH = 12


def by_autograd(head: NetworkHead, ids: list[list[int]]) -> NDArray[np.float32]:
    """The gradients of each text's loss by plain autograd: alone, without padding."""
    parameters = dict(head.network.named_parameters())
    wanted = [parameters[name].requires_grad_() for name in head.shapes]
    rows = []
    for tokens, label in zip(ids, LABELS, strict=True):
        logits = head.network(input_ids=torch.tensor([tokens])).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([label]))
        rows.append(torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, wanted)]).numpy())
    return np.array(rows)


def same(gradients: ExampleGradients, truth: ExampleGradients) -> None:
    close: Any = {"rtol": 2e-4, "atol": 2e-5}
    weights = np.random.default_rng(1).standard_normal(truth.count)
    vector = np.random.default_rng(2).standard_normal(truth.size)
    assert (gradients.count, gradients.size, gradients.parts) == (truth.count, truth.size, truth.parts)
    np.testing.assert_allclose(gradients.norms(), truth.norms(), **close)
    np.testing.assert_allclose(gradients.weighted_sum(weights), truth.weighted_sum(weights), **close)
    np.testing.assert_allclose(gradients.gram(), truth.gram(), **close)
    np.testing.assert_allclose(gradients.product(vector), truth.product(vector), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("kind", [*SAVE])
def test_the_second_way_gives_what_the_closed_form_gives(kind: str, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path)
    frozen, closed = Frozen(folder, LENGTH), last_layers(folder).head(2, NOISE)
    head = trainable(network(folder, 2, NOISE), LENGTH, [*closed.shapes], micro=2)
    assert head.shapes == closed.shapes
    np.testing.assert_array_equal(head.vector, closed.vector)
    ids, states = frozen.padded(TEXTS), frozen.states(TEXTS)
    gradients, truth = head.gradients(ids, LABELS), closed.gradients(states, LABELS)
    same(gradients, truth)
    for number in range(len(head.parts)):
        same(gradients.part(number), truth.part(number))
    np.testing.assert_allclose(head.probabilities(ids), closed.probabilities(states), atol=1e-5)
    np.testing.assert_allclose(head.losses(ids, LABELS), closed.losses(states, LABELS), atol=1e-5)


@pytest.mark.parametrize("kind", [*SAVE])
@pytest.mark.parametrize("memory", [general.MEMORY, 0])
def test_gradients_by_all_parameters_whatever_the_micro_batch(
    kind: str, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written out, or micro-batch by micro-batch: the gradients of autograd, a text at a time."""
    monkeypatch.setattr(general, "MEMORY", memory)
    folder = SAVE[kind](tmp_path)
    frozen, module = Frozen(folder, LENGTH), network(folder, 2, NOISE)
    truth = None
    for micro in (1, 2, 8):
        head = trainable(module, LENGTH, [""], micro)
        truth = truth or DenseGradients(by_autograd(head, frozen.ids(TEXTS)), head.parts)
        assert truth.norms().min() > 0.1
        gradients = head.gradients(frozen.padded(TEXTS), LABELS)
        same(gradients, truth)
        last = len(head.parts) - 2
        same(gradients.part(last), truth.part(last))


def test_a_training_by_the_second_way_ends_where_one_by_the_first_does(tmp_path: Path) -> None:
    """The same batches and noise, step by step; a Poisson batch of two of five texts is sometimes empty."""
    folder = save_bert_classifier(tmp_path / "model")
    frozen, closed = Frozen(folder, LENGTH), last_layers(folder).head(2, NOISE)
    second = trainable(network(folder, 2, NOISE), LENGTH, [*closed.shapes], micro=2)
    settings = Settings(Poisson(5, 2, 4), GaussianNoise(0.5), 0.05, "sgd", dropout=False)
    trained = train(closed, frozen.states(TEXTS), LABELS, settings)
    two = train(second, frozen.padded(TEXTS), LABELS, settings)
    assert 0 in trained.batches
    assert np.abs(trained.head.vector - closed.vector).max() > 0.1
    np.testing.assert_allclose(two.head.vector, trained.head.vector, atol=1e-5)
    np.testing.assert_allclose(two.losses, trained.losses, atol=1e-4)


def test_a_checkpoint_tells_networks_apart_by_what_is_frozen(tmp_path: Path) -> None:
    module: Any = network(save_bert_classifier(tmp_path), 2, NOISE)
    about = trainable(module, LENGTH, ["classifier"]).about()
    with torch.no_grad():
        module.classifier.bias += 1
    assert trainable(module, LENGTH, ["classifier"]).about() == about
    with torch.no_grad():
        module.bert.pooler.dense.bias += 1
    assert trainable(module, LENGTH, ["classifier"]).about() != about


def test_a_micro_batch_is_as_large_as_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = network(save_gpt2_classifier(tmp_path), 2, NOISE)
    assert trainable(module, LENGTH, ["score"]).micro == general.MICRO
    for memory, micro in ((3 * 4 * 64, 3), (1, 1)):
        monkeypatch.setattr(general, "MEMORY", memory)
        assert trainable(module, LENGTH, ["score"]).micro == micro


def test_a_tensor_that_layers_share_is_counted_once(tmp_path: Path) -> None:
    """Its gradient is the sum of those by two copies; a norm that took the copies apart would be too small."""
    folder = save_bert_classifier(tmp_path)
    frozen = Frozen(folder, LENGTH)
    tied: Any = network(folder, 2, NOISE)
    tied.bert.encoder.layer[1].attention.self.value = tied.bert.encoder.layer[0].attention.self.value
    copies: Any = network(folder, 2, NOISE)
    copies.bert.encoder.layer[1].attention.self.value.load_state_dict(
        tied.bert.encoder.layer[0].attention.self.value.state_dict()
    )
    names = [f"bert.encoder.layer.{i}.attention.self.value.weight" for i in (0, 1)]
    shared = trainable(tied, LENGTH, names[:1]).gradients(frozen.padded(TEXTS), LABELS)
    two = trainable(copies, LENGTH, names).gradients(frozen.padded(TEXTS), LABELS)
    assert 2 * shared.size == two.size == 2 * 32 * 32
    both = np.array([two.weighted_sum(row).reshape(2, -1).sum(0) for row in np.eye(5)])
    same(shared, DenseGradients(both))
    assert not np.allclose(shared.norms(), two.norms(), rtol=0.01)
    with refused("EPS-C022"):
        trainable(tied, LENGTH, names)


@pytest.mark.parametrize("kind", [*SAVE])
def test_adapters_go_the_second_way(kind: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    folder = SAVE[kind](tmp_path)
    frozen, module = Frozen(folder, LENGTH), network(folder, 2, NOISE)
    layers = {"bert": ["query", "value"], "gpt2": ["c_attn"]}[kind]
    config = peft.LoraConfig(
        r=2, target_modules=layers, task_type="SEQ_CLS", lora_dropout=0.5, fan_in_fan_out=kind == "gpt2",
        init_lora_weights=False,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        adapted = peft.get_peft_model(module, config)
    head = trainable(adapted, LENGTH)
    adapters = {"bert": 2 * 2 * 2 * (2 * 32), "gpt2": 2 * 2 * (32 + 96)}[kind]
    assert head.size == adapters + {"bert": 66, "gpt2": 64}[kind]  # the classifier or scorer is trained in full
    same(head.gradients(frozen.padded(TEXTS), LABELS), DenseGradients(by_autograd(head, frozen.ids(TEXTS)), head.parts))


@pytest.mark.parametrize("memory", [general.MEMORY, 0])
def test_a_text_that_gives_no_finite_gradient_counts_as_zero(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(general, "MEMORY", memory)
    folder = save_bert_classifier(tmp_path)
    frozen = Frozen(folder, LENGTH)
    module: Any = network(folder, 2, NOISE)
    with torch.no_grad():
        module.bert.embeddings.word_embeddings.weight[frozen.ids(["g"])[0][1]] = torch.nan
    head = trainable(module, LENGTH, ["classifier", "bert.pooler"], micro=2)
    gradients = head.gradients(frozen.padded(TEXTS), LABELS)
    bad = np.array(["g" in text.split() for text in TEXTS])
    assert bad.tolist() == [False, True, False, False, True]
    np.testing.assert_array_equal(gradients.norms() == 0, bad)
    others = head.gradients(frozen.padded(TEXTS)[~bad], LABELS[~bad])
    for of_all, of_others in ((gradients, others), (gradients.part(2), others.part(2))):
        # Five texts are summed in another order than three, which changes the sixth digit. One text adds about 1.
        total, without = of_all.weighted_sum(np.ones(5)), of_others.weighted_sum(np.ones(3))
        np.testing.assert_allclose(total, without, rtol=1e-5, atol=1e-5)
    assert not gradients.part(0).product(np.ones(32 * 32))[bad].any()


def test_an_empty_batch_has_a_sum_of_zero(tmp_path: Path) -> None:
    head = trainable(network(save_gpt2_classifier(tmp_path), 2, NOISE), LENGTH, ["score"])
    gradients = head.gradients(np.empty((0, LENGTH), np.int64), np.empty(0, np.int64))
    assert not gradients.weighted_sum(np.empty(0)).any()
    assert gradients.norms().shape == gradients.product(np.ones(64)).shape == (0,)
    assert gradients.gram().shape == (0, 0)


def test_the_vector_holds_the_parameters_and_so_does_their_file(tmp_path: Path) -> None:
    frozen = Frozen(save_bert_classifier(tmp_path / "model"), LENGTH)
    head = trainable(network(frozen.folder, 2, NOISE), LENGTH, ["bert.encoder.layer.1.output", "classifier"])
    before = head.losses(frozen.padded(TEXTS), LABELS)
    step = head.gradients(frozen.padded(TEXTS), LABELS).weighted_sum(np.full(5, 0.2))
    again = trainable(head.network, LENGTH, ["bert.encoder.layer.1.output", "classifier"])
    head.vector[...] -= np.float32(0.02) * step
    after = head.losses(frozen.padded(TEXTS), LABELS)
    assert after.mean() < before.mean() - 0.01
    head.save(tmp_path / "head.safetensors")
    tensors = load_file(tmp_path / "head.safetensors")
    assert {name: tensor.shape for name, tensor in tensors.items()} == head.shapes
    np.testing.assert_array_equal(np.concatenate([tensors[name].ravel() for name in head.shapes]), head.vector)
    np.testing.assert_array_equal(again.losses(frozen.padded(TEXTS), LABELS), before)


def test_a_batch_is_asked_more_than_once_and_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = Frozen(save_gpt2_classifier(tmp_path), LENGTH)
    head = trainable(network(frozen.folder, 2, NOISE), LENGTH, ["score"], micro=2)
    sizes: list[int] = []
    monkeypatch.setattr(
        NetworkHead, "written_out", lambda self, x, y: sizes.append(len(x)) or np.zeros((len(x), 64), np.float32)
    )
    gradients = MicroGradients(head, frozen.padded(TEXTS), LABELS)
    gradients.norms(), gradients.weighted_sum(np.ones(5))
    assert sizes == [2, 2, 1]


def test_what_cannot_be_trained_is_refused_by_name(tmp_path: Path) -> None:
    module: Any = network(save_bert_classifier(tmp_path / "bert"), 2, NOISE)
    with refused("EPS-C022", "score"):
        trainable(module, LENGTH, ["classifier", "score"])
    with refused("EPS-T007"):
        trainable(module, LENGTH, [])
    with refused("EPS-T007"):
        trainable(module.requires_grad_(False), LENGTH)
    with refused("EPS-T008", "1"):
        trainable(module, LENGTH, ["classifier"], 0)
    with refused("EPS-T014"):
        network(save_qwen(tmp_path / "qwen"), 2, NOISE)
    with refused("EPS-T006", "2", "1"):
        network(tmp_path / "bert", 1, NOISE)
