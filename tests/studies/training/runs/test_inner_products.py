"""Inner products and lengths of gradients from activations, against autograd's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.studies.training.runs.inner_products import mean_products, products, products_beside, summed
from epsilometer.studies.training.runs.shared_model import SharedModel, Tensors
from tests.support.refusals import refused
from tests.support.tiny_models import save_gpt2, save_word_bert

WORDS = ["good", "bad", "food", "service", "the", "was"]
LABELS = [0, 1, 1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        "bert": save_word_bert(tmp_path_factory.mktemp("bert"), WORDS),
        "gpt2": save_gpt2(tmp_path_factory.mktemp("gpt2")),
    }


def texts(model: SharedModel) -> torch.Tensor:
    """Three texts of one length, in one of which a word stands twice."""
    each = ["the food was", "bad bad service", "good the food"]
    return torch.tensor(model.encode(each if model.architecture == "bert" else ["the of a", "b b c", "d e f"]))


@pytest.mark.parametrize("tensors", ["all", "without_embeddings", "head"])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_they_are_autograds(folders: dict[str, Path], kind: str, tensors: Tensors) -> None:
    model = SharedModel(folders[kind], tensors=tensors)
    ids = texts(model)
    vector = model.split(torch.randn(model.size, generator=torch.Generator().manual_seed(0)))
    result = products(model, ids, LABELS, vector)
    for row, (text, label) in enumerate(zip(ids, LABELS, strict=True)):
        gradient = model.gradient(text, label)
        whole = float(sum((grad**2).sum() for grad in gradient)) ** 0.5
        for i, (grad, other) in enumerate(zip(gradient, vector, strict=True)):
            scale = 3e-5 * float(grad.norm()) + 1e-7 * whole  # the gradient of a key's bias is zero up to rounding
            assert abs(float((grad * other).sum()) - float(result.inner[row, i])) < scale * float(other.norm())
            assert abs(float((grad**2).sum()) - float(result.squares[row, i])) < scale * whole
    assert not result.inner.requires_grad


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_they_are_differentiated_by_the_embeddings(folders: dict[str, Path], kind: str) -> None:
    """Against autograd's second derivative of the whole gradient."""
    model = SharedModel(folders[kind])
    vector = model.split(torch.randn(model.size, generator=torch.Generator().manual_seed(1)))
    embeddings = model.words[texts(model)[:1]].detach()

    def by(whole: bool) -> np.ndarray:
        at = embeddings.clone().requires_grad_()
        if whole:
            gradient = model.gradient(at[0], 1, create_graph=True)
            value = sum((g * v).sum() - 0.3 * (g**2).sum() for g, v in zip(gradient, vector, strict=True))
        else:
            result = products(model, at, [1], vector, create_graph=True)
            value = (result.inner - 0.3 * result.squares).sum()
        return torch.autograd.grad(value, at)[0].numpy()  # type: ignore[arg-type]

    np.testing.assert_allclose(by(False), by(True), atol=2e-4 * np.abs(by(True)).max())


def test_language_models_are_refused(folders: dict[str, Path]) -> None:
    model = SharedModel(folders["gpt2"], objective="causal")
    with refused("EPS-T018"):
        products(model, texts(model), LABELS, model.parameters)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_those_of_the_mean_of_texts_of_any_lengths(folders: dict[str, Path], kind: str) -> None:
    """And their derivative by the embeddings, against autograd's of the mean gradient."""
    model = SharedModel(folders[kind])
    each = ["the food was", "bad", "good the bad"] if kind == "bert" else ["the of a", "b", "d e f"]
    vector = model.split(torch.randn(model.size, generator=torch.Generator().manual_seed(2)))
    inputs = [model.words[torch.tensor(ids)].detach().requires_grad_() for ids in model.encode(each)]
    formed = [model.gradient(text, label, create_graph=True) for text, label in zip(inputs, LABELS, strict=True)]
    mean = [sum(same) / len(inputs) for same in zip(*formed, strict=True)]
    plain = sum((a * b).sum() for a, b in zip(mean, vector, strict=True)) + sum(part.square().sum() for part in mean)
    result = mean_products(model, inputs, LABELS, vector, create_graph=True)
    ours = result.inner.sum() + result.squares.sum()
    assert float(ours.detach()) == pytest.approx(float(plain.detach()), rel=1e-4, abs=1e-5)
    for left, other in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), strict=True):
        torch.testing.assert_close(left, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("tensors", ["all", "head"])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_those_of_a_sum_with_other_texts(folders: dict[str, Path], kind: str, tensors: Tensors) -> None:
    """Each candidate's gradient plus those of two texts of other lengths, one with a word of the candidates'."""
    model = SharedModel(folders[kind], tensors=tensors)
    others = model.encode(["the bad food was", "bad"] if kind == "bert" else ["the of a d", "b"])
    vector = model.split(torch.randn(model.size, generator=torch.Generator().manual_seed(3)))
    rest = summed(model, [torch.tensor(ids) for ids in others], [1, 0], vector)
    results = products_beside(model, texts(model), LABELS, vector, other=rest)
    formed = [model.gradient(ids, label) for ids, label in zip(others, [1, 0], strict=True)]
    for row, (text, label) in enumerate(zip(texts(model), LABELS, strict=True)):
        every = [*formed, model.gradient(text, label)]
        whole = float(sum((grad**2).sum() for gradient in every for grad in gradient)) ** 0.5
        for i, same in enumerate(zip(*every, strict=True)):
            total = sum(same[1:], same[0])
            scale = 3e-5 * float(sum(grad.norm() for grad in same)) + 1e-7 * whole
            assert abs(float((total * vector[i]).sum()) - float(results.inner[row, i])) < scale * float(
                vector[i].norm()
            )
            assert abs(float((total**2).sum()) - float(results.squares[row, i])) < scale * whole
