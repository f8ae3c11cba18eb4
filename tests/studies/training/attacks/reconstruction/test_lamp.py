"""LAMP: its losses agree with gradients computed in full, special tokens stay in place, and the truth is a minimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.studies.training.attacks.reconstruction.lamp import Descent, Lamp, moves
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge
from epsilometer.studies.training.attacks.reconstruction.shared.language import LanguageModel
from epsilometer.studies.training.attacks.reconstruction.shared.matching import TAG_FACTOR, Loss, Matching
from epsilometer.studies.training.runs.sent import OnMean, Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel
from tests.support.refusals import refused
from tests.support.tiny_models import save_bert, save_gpt2, save_word_bert

PIECES = [f"w{i}" for i in range(20)]
TEXTS, LABELS = ["w1 w2 w3 w4", "w5 w2 w6"], [0, 1]
NOTHING = Knowledge([], OnMean(0.0), np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SharedModel:
    return SharedModel(save_word_bert(tmp_path_factory.mktemp("bert"), PIECES, num_hidden_layers=2))


@pytest.fixture(scope="module")
def sent(model: SharedModel) -> Sent:
    return send(model, model.encode(TEXTS), LABELS, OnMean(0.0), np.random.default_rng(0))


def embedded(model: SharedModel, texts: list[str]) -> list[torch.Tensor]:
    return [model.words.detach()[torch.tensor(ids)] for ids in model.encode(texts)]


def written_out(model: SharedModel, sent: Sent, texts: list[torch.Tensor], kind: Loss) -> float:
    """The loss by gradients formed whole, in float64."""
    each = [model.gradient(text, label) for text, label in zip(texts, sent.labels, strict=True)]
    mean = [(sum(same) / len(texts)).detach().double() for same in zip(*each, strict=True)]
    pairs = [
        (a, b.double())
        for name, a, b in zip(model.names, mean, model.split(sent.update), strict=True)
        if not name.endswith("key.bias") and bool(b.any())
    ]
    if kind == "tag":
        return float(sum((a - b).square().sum() + TAG_FACTOR * (a - b).abs().sum() for a, b in pairs))
    return float(np.mean([1 - float((a * b).sum() / a.norm() / b.norm()) for a, b in pairs]))


@pytest.mark.parametrize("kind", ["cos", "tag"])
def test_losses_are_those_of_gradients_written_out(model: SharedModel, sent: Sent, kind: Loss) -> None:
    matching = Matching(model, sent, kind)
    embeddings = embedded(model, ["w9 w1 w3 w4", "w5 w8 w2"])
    assert float(matching.loss(embeddings)) == pytest.approx(written_out(model, sent, embeddings, kind), rel=1e-3)
    candidates = torch.stack(embedded(model, ["w2 w5 w6", "w1 w1 w1", "w6 w2 w5"]))
    losses = matching.losses(embeddings, 1, candidates)
    for candidate, loss in zip(candidates, losses, strict=True):
        # Gradients of different labels nearly cancel, so float32 rounding is noticeable.
        assert float(loss) == pytest.approx(written_out(model, sent, [embeddings[0], candidate], kind), rel=0.02)


@pytest.mark.parametrize("kind", ["cos", "tag"])
def test_the_true_text_is_a_fixed_point(model: SharedModel, sent: Sent, kind: Loss) -> None:
    """Its loss is zero, no step leads away from it, and no rearrangement is better."""
    matching = Matching(model, sent, kind)
    true = [embeddings.requires_grad_() for embeddings in embedded(model, TEXTS)]
    loss = matching.loss(true, create_graph=True)
    assert abs(float(loss.detach())) < 1e-4
    other = [embeddings.requires_grad_() for embeddings in embedded(model, ["w4 w3 w2 w1", "w6 w7 w5"])]
    away = torch.autograd.grad(matching.loss(other, create_graph=True), other)
    if kind == "cos":  # absolute differences have no derivative at 0
        at = torch.autograd.grad(loss, true)
        assert max(float(slope.abs().max()) for slope in at) < 0.02 * max(float(slope.abs().max()) for slope in away)
    orders = moves(4, 30, np.random.default_rng(1))
    whole = [embeddings.detach() for embeddings in true]
    places = torch.from_numpy(np.pad(orders + 1, ((0, 0), (1, 1)), constant_values=(0, 5)))
    losses = matching.losses(whole, 0, whole[0][places])
    assert int(losses.argmin()) in np.flatnonzero((orders == np.arange(4)).all(1))


def test_moves_rearrange_and_the_first_does_not() -> None:
    every = moves(7, 300, np.random.default_rng(0))
    assert 60 < len(every) <= 300
    assert (np.sort(every, 1) == np.arange(7)).all()
    assert (every[0] == np.arange(7)).all()
    assert len({tuple(move) for move in every}) == len(every)
    assert moves(1, 5, np.random.default_rng(0)).tolist() == [[0]]


def test_it_answers_words_in_the_lengths_given_and_repeats_itself(model: SharedModel, sent: Sent) -> None:
    settings = Lamp(steps=6, starts=4, rearranged=3, moves=5, every=2, language=None)
    ready = settings.prepare(model, NOTHING)
    first, again = (ready.reconstruct(sent, np.random.default_rng(5)) for _ in range(2))
    assert first == again
    assert [len(text) for text in first.ids] == [4, 3]
    assert not {i for text in first.ids for i in text} & model.special
    assert ready.model is model


def test_the_nearest_words_of_words_are_themselves(model: SharedModel) -> None:
    ready = Lamp(language=None).prepare(model, NOTHING)
    assert isinstance(ready, Descent)
    assert ready.nearest(embedded(model, TEXTS)) == [model.plain(ids) for ids in model.encode(TEXTS)]


def test_a_language_model_reads_each_text_alone(tmp_path: Path) -> None:
    language = LanguageModel(save_gpt2(tmp_path))
    texts = ["a b c d", "the of", "", "h"]
    together = language.losses(texts)
    np.testing.assert_allclose(together, [language.losses([text])[0] for text in texts], rtol=1e-5)
    assert together[2] == 0
    assert (together[[0, 1, 3]] > 0).all()


def test_language_models_are_no_victims(tmp_path: Path) -> None:
    with refused("EPS-A022"):
        Lamp(language=None).prepare(SharedModel(save_bert(tmp_path), objective="masked"), NOTHING)
