from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs.factored import Factor, FactoredGradients
from epsilometer.studies.training.runs.features import Frozen
from epsilometer.studies.training.runs.gradients import DenseGradients, ExampleGradients
from epsilometer.studies.training.runs.heads import BertHead, GptHead, Head, last_layers, load, load_last_layers
from tests.support.refusals import refused
from tests.support.tiny_classifiers import SAVE, save_bert_classifier, save_gpt2_classifier
from tests.support.tiny_models import save_qwen

TEXTS = ["a b c", "document of the a b c d e f g h h h h a", "d e", " a b c b", "g"]
LABELS = np.array([0, 1, 1, 0, 1])
NOISE = Noise.named(1, "heads")


def random_head(kind: str, classes: int = 3, models: tuple[int, ...] = (), seed: int = 0) -> Head:
    generator = np.random.default_rng(seed)
    width = 8
    size = (width + 1) * (width + classes) if kind == "bert" else (2 + classes) * width
    vector = generator.standard_normal((*models, size)).astype(np.float32) / 2
    return BertHead(vector, width, classes, 0.1) if kind == "bert" else GptHead(vector, width, classes)


def batch(count: int, classes: int = 3, seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((count, 8)).astype(np.float32), generator.integers(0, classes, count)


def dense(gradients: ExampleGradients) -> NDArray[np.float32]:
    """The matrix [L, d] of the gradients: a sum with one weight of 1 is one row."""
    return np.array([gradients.weighted_sum(row) for row in np.eye(gradients.count)]).reshape(-1, gradients.size)


def by_torch(folder: Path, head: Head, ids: list[list[int]]) -> NDArray[np.float64]:
    """The gradients of the real model's losses by the head's tensors, example by example, by torch.func."""
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64).eval()
    every = dict(model.named_parameters())
    trained = {name: torch.from_numpy(tensor).double() for name, tensor in head.parameters.items()}
    assert [*trained] == [name for name in every if name in trained]  # these names exist in the model, in this order

    def loss(tensors: dict[str, torch.Tensor], tokens: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        output = torch.func.functional_call(model, {**every, **tensors}, (), {"input_ids": tokens[None]})
        return torch.nn.functional.cross_entropy(output.logits, label[None])

    rows = []
    for tokens, label in zip(ids, LABELS, strict=True):
        gradient = torch.func.grad(loss)(trained, torch.tensor(tokens), torch.tensor(label))
        rows.append(torch.cat([gradient[name].reshape(-1) for name in trained]).detach().numpy())
    return np.array(rows)


@pytest.mark.parametrize("kind", [*SAVE])
def test_gradients_are_those_of_torch_on_the_saved_model(kind: str, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path)
    frozen = Frozen(folder, 12)
    head = last_layers(folder).head(2, NOISE)
    gradients = head.gradients(frozen.states(TEXTS), LABELS)
    truth = DenseGradients(by_torch(folder, head, frozen.ids(TEXTS)), head.parts)
    assert truth.norms().min() > 0.01
    close = {"rtol": 2e-4, "atol": 2e-5}
    np.testing.assert_allclose(dense(gradients), truth.matrix, **close)
    np.testing.assert_allclose(gradients.norms(), truth.norms(), **close)
    np.testing.assert_allclose(gradients.gram(), truth.gram(), **close)
    vector = np.random.default_rng(3).standard_normal(head.size)
    np.testing.assert_allclose(gradients.product(vector), truth.product(vector), rtol=2e-4, atol=2e-4)
    weights = np.array([0.3, -1, 2, 0, 1])
    np.testing.assert_allclose(gradients.weighted_sum(weights), truth.weighted_sum(weights), **close)
    assert gradients.parts == truth.parts
    for number in range(len(head.parts)):
        np.testing.assert_allclose(gradients.part(number).gram(), truth.part(number).gram(), **close)


@pytest.mark.parametrize(
    ("model", "config", "expected"),
    [
        (BertForSequenceClassification, BertConfig(num_hidden_layers=1), 592_130),
        (GPT2ForSequenceClassification, GPT2Config(n_layer=1), 3_072),
    ],
)
def test_sizes_are_those_of_the_paper(model: Any, config: Any, expected: int) -> None:
    with torch.device("meta"):
        tensors = dict(model(config).named_parameters())
    vector = np.zeros(expected, np.float32)
    head = (BertHead if expected > 10_000 else GptHead)(vector, config.hidden_size, 2)
    assert head.size == expected
    assert head.shapes == {name: tuple(tensors[name].shape) for name in head.shapes}
    assert not [name for name in tensors if "pooler" in name and name not in head.shapes]
    assert not [name for name in tensors if name.startswith(("classifier", "score")) and name not in head.shapes]


def test_dropout_of_the_pooled_state_is_in_the_gradient() -> None:
    head, (states, labels) = random_head("bert"), batch(6)
    masks = head.masks(6, np.random.default_rng(5))
    assert masks is not None
    tensors = [torch.from_numpy(tensor.copy()).double().requires_grad_() for tensor in head.parameters.values()]
    pooled = torch.tanh(torch.from_numpy(states).double() @ tensors[0].T + tensors[1])
    logits = (pooled * torch.from_numpy(masks)) @ tensors[2].T + tensors[3]
    losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), reduction="none")
    truth = [torch.cat([g.reshape(-1) for g in torch.autograd.grad(x, tensors, retain_graph=True)]) for x in losses]
    np.testing.assert_allclose(dense(head.gradients(states, labels, masks)), torch.stack(truth), atol=1e-5)


def test_masks_leave_out_the_stated_share_and_keep_the_mean() -> None:
    """By Hoeffding the share of 80,000 coins is off by more than .01 with probability below 1e-6."""
    masks = random_head("bert").masks(10_000, np.random.default_rng(0))
    assert masks is not None
    assert abs(np.mean(masks == 0) - 0.1) < 0.01
    np.testing.assert_allclose(np.unique(masks), [0, 1 / 0.9], rtol=1e-6)
    assert random_head("gpt2").masks(3, np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", [*SAVE])
def test_losses_and_probabilities_are_those_of_the_saved_model(kind: str, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path, classes=3)
    frozen = Frozen(folder, 12)
    head = last_layers(folder).head(3, NOISE)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = torch.cat([model(input_ids=torch.tensor([ids])).logits for ids in frozen.ids(TEXTS)])
    states = frozen.states(TEXTS)
    np.testing.assert_allclose(head.probabilities(states), logits.softmax(1), atol=1e-5)
    losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(LABELS), reduction="none")
    np.testing.assert_allclose(head.losses(states, LABELS), losses, atol=1e-5)


@pytest.mark.parametrize("kind", [*SAVE])
def test_a_clipped_sum_moves_by_at_most_c_when_an_example_goes(kind: str) -> None:
    """And by all of C where the example's gradient is longer, to rounding in float32."""
    head, (states, labels) = random_head(kind), batch(40)
    norms = head.gradients(states, labels).norms()
    longest = float(np.median(norms))

    def clipped(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        gradients = head.gradients(states[rows], labels[rows])
        return gradients.weighted_sum(np.minimum(1, longest / gradients.norms())).astype(np.float64)

    everybody = clipped(np.arange(40))
    for gone in range(40):
        moved = np.linalg.norm(everybody - clipped(np.delete(np.arange(40), gone)))
        assert moved == pytest.approx(min(longest, norms[gone]), abs=2e-5)


@pytest.mark.parametrize("kind", [*SAVE])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_example_that_is_not_finite_counts_as_zero(kind: str, bad: float) -> None:
    head, (states, labels) = random_head(kind), batch(5)
    without = head.gradients(np.delete(states, 2, 0), np.delete(labels, 2))
    whole = head.gradients(states.copy(), labels)  # equal numbers of rows round alike on any processor
    states[2, 1] = bad
    with np.errstate(all="ignore"):
        gradients = head.gradients(states, labels)
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(gradients.norms()[others], whole.norms()[others])
    assert gradients.norms()[2] == 0
    np.testing.assert_allclose(gradients.weighted_sum(np.ones(5)), without.weighted_sum(np.ones(4)), atol=1e-6)
    assert not gradients.gram()[2].any()
    assert not gradients.product(np.ones(head.size))[2]
    assert not any(gradients.part(i).norms()[2] for i in range(len(head.parts)))


def test_a_gradient_too_large_for_float32_counts_as_zero() -> None:
    left = np.array([[1e30, 1], [1, 2]], np.float32)
    gradients = FactoredGradients([Factor(left, left)])
    np.testing.assert_array_equal(gradients.weighted_sum(np.ones(2)), [1, 2, 2, 4])
    np.testing.assert_allclose(gradients.norms(), [0, 5])


@pytest.mark.parametrize("kind", [*SAVE])
def test_an_empty_batch_has_a_sum_of_zero(kind: str) -> None:
    head, (states, labels) = random_head(kind), batch(0)
    gradients = head.gradients(states, labels, head.masks(0, np.random.default_rng(0)))
    assert gradients.count == 0
    assert gradients.size == head.size
    np.testing.assert_array_equal(gradients.weighted_sum(np.empty(0)), np.zeros(head.size))
    assert gradients.norms().shape == gradients.product(np.ones(head.size)).shape == (0,)
    assert gradients.gram().shape == (0, 0)


@pytest.mark.parametrize("kind", [*SAVE])
@pytest.mark.parametrize("shared", [True, False])
def test_many_models_are_each_as_if_alone(kind: str, shared: bool) -> None:
    """With batches of their own, and on one batch."""
    many = random_head(kind, models=(4,))
    batches = [batch(6, seed=i) for i in range(4)]
    states = batches[0][0] if shared else np.array([x for x, _ in batches])
    labels = batches[0][1] if shared else np.array([y for _, y in batches])
    weights = np.random.default_rng(9).random((4, 6))
    vector = np.random.default_rng(8).standard_normal((4, many.size))
    together = many.gradients(states, labels)
    for i in range(4):
        alone = type(many)(many.vector[i], many.width, many.classes)
        x, y = batches[0 if shared else i]
        np.testing.assert_allclose(many.losses(states, labels)[i], alone.losses(x, y), rtol=1e-5)
        of_alone = alone.gradients(x, y)
        np.testing.assert_allclose(together.norms()[i], of_alone.norms(), rtol=1e-5)
        np.testing.assert_allclose(together.gram()[i], of_alone.gram(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(together.weighted_sum(weights)[i], of_alone.weighted_sum(weights[i]), atol=1e-5)
        np.testing.assert_allclose(together.product(vector)[i], of_alone.product(vector[i]), atol=1e-5)


@pytest.mark.parametrize("kind", [*SAVE])
def test_the_parameters_are_views_of_the_vector(kind: str) -> None:
    head = random_head(kind, models=(2,))
    before = head.parameters
    head.vector[...] = 1
    assert all((tensor == 1).all() for tensor in before.values())
    assert sum(tensor[0].size for tensor in before.values()) == head.size


@pytest.mark.parametrize("kind", [*SAVE])
@pytest.mark.parametrize("models", [(), (3,)])
def test_a_saved_head_comes_back_in_the_same_bytes(kind: str, models: tuple[int, ...], tmp_path: Path) -> None:
    head = random_head(kind, models=models)
    head.save(tmp_path / "a.safetensors")
    again = load(tmp_path / "a.safetensors")
    again.save(tmp_path / "b.safetensors")
    assert type(again) is type(head)
    assert again.about() == head.about()
    np.testing.assert_array_equal(again.vector, head.vector)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_head_begins_with_the_checkpoint_and_draws_what_it_lacks(tmp_path: Path) -> None:
    """The deviation of 96 normal numbers is off by more than a third with probability below 1e-4 (chi-squared)."""
    layers = last_layers(save_bert_classifier(tmp_path, initializer_range=0.5))
    layers.save(tmp_path / "layers.safetensors")
    again = load_last_layers(tmp_path / "layers.safetensors")
    two, three, other = again.head(2, NOISE), again.head(3, NOISE), again.head(3, Noise.named(1, "another"))
    pooler, classifier = "bert.pooler.dense.weight", "classifier.weight"
    for name, tensor in layers.tensors.items():
        np.testing.assert_array_equal(two.parameters[name], tensor)
    np.testing.assert_array_equal(three.parameters[pooler], two.parameters[pooler])
    assert three.parameters[classifier].std() == pytest.approx(0.5, rel=0.33)
    assert not three.parameters["classifier.bias"].any()
    assert not np.array_equal(three.parameters[classifier], other.parameters[classifier])
    np.testing.assert_array_equal(three.vector, layers.head(3, NOISE).vector)


def test_a_masked_language_models_pooler_is_drawn(tmp_path: Path) -> None:
    from transformers import BertForMaskedLM

    BertForMaskedLM(
        BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    ).save_pretrained(tmp_path)
    head = last_layers(tmp_path).head(2, NOISE)
    assert not head.parameters["bert.pooler.dense.bias"].any()
    assert head.parameters["bert.pooler.dense.weight"].all()


def test_what_cannot_be_trained_is_refused_by_name(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    with refused("EPS-T014"):
        last_layers(save_qwen(tmp_path / "qwen"))
    folder = save_gpt2_classifier(tmp_path / "gpt2")
    with refused("EPS-T011", "2", "1"):
        last_layers(folder).head(1, NOISE)
    tensors = load_file(folder / "model.safetensors")
    del tensors["transformer.ln_f.bias"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with refused("EPS-T013"):
        last_layers(folder)
    last = tmp_path / "head.safetensors"
    random_head("bert").save(last)
    with refused("EPS-T016"):
        load_last_layers(last)
    last.write_bytes(b"no")
    with refused("EPS-T017"):
        load(last)
