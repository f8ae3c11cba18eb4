"""The model that server and clients share: its tensors, texts and gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.studies.training.runs.sent import OnMean, send
from epsilometer.studies.training.runs.shared_model import SharedModel
from tests.support.refusals import refused
from tests.support.tiny_models import save_gpt2, save_qwen, save_word_bert

WORDS = ["good", "bad", "food", "service", "the", "was"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_word_bert(tmp_path_factory.mktemp("bert"), WORDS)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gpt2(tmp_path_factory.mktemp("gpt2"))


def test_tensors_are_those_that_the_paper_names(bert: Path, gpt2: Path) -> None:
    """592,130 = 768^2 + 768 + 768 * 2 + 2 in bert-base, 3,072 = 4 * 768 in gpt2: the same sums at width 32."""
    width = 32
    assert SharedModel(bert, tensors="head").size == width**2 + width + width * 2 + 2
    assert SharedModel(gpt2, tensors="head").size == 4 * width
    for folder in (bert, gpt2):
        every, rest = SharedModel(folder, tensors="all"), SharedModel(folder)
        assert every.size - rest.size == every.words.numel()
        assert every.size == sum(p.numel() for p in every.network.parameters())


def test_tied_weights_are_one_tensor(gpt2: Path) -> None:
    model = SharedModel(gpt2, objective="causal", tensors="all")
    assert model.network.lm_head.weight is model.words
    assert not [name for name in model.names if name.startswith("lm_head")]
    assert len({*model.names}) == len(model.names)


@pytest.mark.parametrize("folder", ["bert", "gpt2"])
def test_a_batch_is_the_mean_of_its_texts(folder: str, request: pytest.FixtureRequest) -> None:
    """Of texts of different lengths, read alone: the gradient that transformers gives for the padded batch."""
    model = SharedModel(request.getfixturevalue(folder))
    texts = ["the the of", "a"] if folder == "gpt2" else ["the food was good", "bad"]
    ids = model.encode(texts)
    sent = send(model, ids, [0, 1], OnMean(0.0), np.random.default_rng(0))
    model.tokenizer.padding_side = "right"
    batch = model.tokenizer(texts, padding=True, return_tensors="pt")
    loss = model.network(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    loss = torch.nn.functional.cross_entropy(loss, torch.tensor([0, 1]))
    whole = torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, model.parameters)]).numpy()
    np.testing.assert_allclose(sent.update, whole, atol=2e-6)
    assert sent.texts == 2
    assert sent.lengths == (len(ids[0]), len(ids[1]))


def test_embeddings_give_the_gradient_of_their_tokens(bert: Path) -> None:
    model = SharedModel(bert)
    ids = model.encode(["the food was good"])[0]
    by_ids, by_embeddings = model.gradient(ids, 1), model.gradient(model.words[ids].detach(), 1)
    assert all(torch.equal(a, b) for a, b in zip(by_ids, by_embeddings, strict=True))


def test_ids_and_texts_go_to_and_fro(bert: Path) -> None:
    model = SharedModel(bert, longest=5)
    ids = model.encode(["the food was good"])[0]
    assert len(ids) == 5  # cut
    assert model.framed(model.plain(ids)) == ids
    assert model.decode(ids) == "the food was"
    assert model.plain(model.encode(["strange food"])[0])[0] == model.tokenizer.unk_token_id  # a token like another


def test_other_parameters_leave_the_model_as_it_was(bert: Path) -> None:
    model = SharedModel(bert)
    name = model.names[0]
    before = model.parameters[0].clone()
    other = model.with_parameters({name: torch.zeros_like(before)})
    assert not other.parameters[0].any()
    assert torch.equal(model.parameters[0], before)
    with refused("EPS-C022", "bert.pooler.dense.wait"):
        model.with_parameters({"bert.pooler.dense.wait": before})


def test_first_weights_come_from_the_seed_and_torch_keeps_its_own(bert: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, same, other = (SharedModel(bert, seed=seed).network.classifier.weight for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(torch.rand(1), expected)


def test_noise_as_published_has_its_law(bert: Path) -> None:
    """Laplace's mean absolute value is its scale, the Gaussian's deviation is its own.

    d = 7,700 numbers: each mean within 6 standard errors, so that both together fail by chance in less than 1e-8.
    """
    model = SharedModel(bert)
    ids = model.encode(["the food was good"])
    clean = send(model, ids, [1], OnMean(0.0), np.random.default_rng(0)).update.astype(np.float64)
    laplace = send(model, ids, [1], OnMean(0.5, "laplace"), np.random.default_rng(1)).update - clean
    gaussian = send(model, ids, [1], OnMean(0.5), np.random.default_rng(2)).update - clean
    assert abs(np.abs(laplace).mean() - 0.5) < 6 * 0.5 / np.sqrt(model.size)
    assert abs((gaussian**2).mean() - 0.25) < 6 * 0.25 * np.sqrt(2 / model.size)


def test_bad_input_is_refused(bert: Path, tmp_path: Path) -> None:
    model, generator = SharedModel(bert), np.random.default_rng(0)
    ids = model.encode(["good food"])
    cases: list[tuple[Callable[[], object], tuple[str, ...]]] = [
        (lambda: model.encode(["good", " "]), ("EPS-T039", "text 1")),
        (lambda: send(model, [], [], OnMean(0.1), generator), ("EPS-T033",)),
        (lambda: send(model, ids, [], OnMean(0.1), generator), ("EPS-T034", "0", "1")),
        (lambda: send(model, ids, [None], OnMean(0.1), generator), ("EPS-T035",)),
        (lambda: OnMean(-1.0), ("EPS-T031", "-1")),
        (lambda: OnMean(1.0, "cauchy"), ("EPS-T032", "cauchy")),  # type: ignore[arg-type]
        (lambda: SharedModel(bert, tensors="heads"), ("EPS-C022", "'heads'", "'head'")),  # type: ignore[arg-type]
        (lambda: SharedModel(bert, objective="masked", tensors="head"), ("EPS-T038", "tensors: all")),
        (lambda: SharedModel(save_qwen(tmp_path)), ("EPS-T040", "qwen3")),
    ]
    for work, refusal in cases:
        with refused(*refusal):
            work()
