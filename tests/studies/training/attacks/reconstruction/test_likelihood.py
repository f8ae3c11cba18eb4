"""Ascent on the likelihood of a noisy gradient: its law, its results, and its report on the true text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.core.component import build, find
from epsilometer.studies.training.attacks.reconstruction.likelihood import Climber, LikelihoodAscent
from epsilometer.studies.training.attacks.reconstruction.shared.attack import (
    Explains,
    Knowledge,
    Reconstruction,
    Starts,
)
from epsilometer.studies.training.params import RECONSTRUCTION
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise, TrainingNoise
from epsilometer.studies.training.runs.sent import OnMean, Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel
from tests.support.refusals import refused
from tests.support.tiny_models import save_gpt2, save_word_bert

WORDS = ["good", "bad", "food", "service", "the", "was", "soup", "cold"]
TEXTS = ["the soup was cold", "good food", "the service was bad"]
LABELS = [0, 1, 0]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SharedModel:
    """Weights larger than at first, so that the gradient depends on the text."""
    model = SharedModel(save_word_bert(tmp_path_factory.mktemp("bert"), WORDS))
    return model.with_parameters({n: 8 * p.detach() for n, p in model.network.named_parameters() if p.dim() > 1})


def prepared(model: SharedModel, noise: TrainingNoise, **settings: object) -> Climber:
    attack: LikelihoodAscent = build(
        find(RECONSTRUCTION, "likelihood", "prepare"), {"prior": None} | settings, "likelihood"
    )
    return attack.prepare(model, Knowledge(TEXTS[1:], noise, np.random.default_rng(0)))


def sent(model: SharedModel, texts: list[str], noise: TrainingNoise, seed: int = 0) -> Sent:
    return send(model, model.encode(texts), LABELS[: len(texts)], noise, np.random.default_rng(seed))


def plain(model: SharedModel, texts: list[str]) -> list[list[int]]:
    return [model.plain(ids) for ids in model.encode(texts)]


@pytest.mark.parametrize("noise", [GaussianNoise(0.3), ScaledNoise(0.2, 0.01), OnMean(0.05)])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_gaussian_likelihood_is_that_of_all_numbers(model: SharedModel, noise: TrainingNoise, batch: int) -> None:
    """Differences of -|y - mean|^2 / 2 s^2 between batches of texts, means and s by the noise's own code."""
    texts, quiet = TEXTS[:batch], {GaussianNoise: NoNoise(1.0), ScaledNoise: ScaledNoise(0.0, 0.01)}
    scale = {GaussianNoise: 0.3 / batch, ScaledNoise: 0.2 / batch, OnMean: 0.05}[type(noise)]
    received = sent(model, texts, noise)
    others = ["was food cold the", "bad the", "good good good soup"][:batch]
    dense, said = [], []
    for some in (texts, others):
        mean = sent(model, some, quiet.get(type(noise), OnMean(0.0))).update.astype(np.float64)
        dense.append(-((received.update - mean) ** 2).sum() / (2 * scale**2))
        said.append(prepared(model, noise).explain(received, plain(model, some))["log_likelihood"])
    assert said[0] - said[1] == pytest.approx(dense[0] - dense[1], rel=1e-3, abs=2e-2)


def test_the_directional_likelihood_is_that_of_its_density(model: SharedModel) -> None:
    noise = DirectionalNoise(500.0)
    received = sent(model, TEXTS[:1], noise)
    gradient = model.gradients(model.encode(TEXTS[:1]), LABELS[:1])[0].astype(np.float64)
    truth = 500 * gradient @ received.update / np.linalg.norm(gradient)
    said = prepared(model, noise).explain(received, plain(model, TEXTS[:1]))["log_likelihood"]
    assert said == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("noise", [GaussianNoise(0.001), DirectionalNoise(1e7), NoNoise(), ScaledNoise(0.0)])
def test_without_noise_worth_the_name_it_finds_the_text(model: SharedModel, noise: TrainingNoise) -> None:
    """Four words of eight, by likelihood alone: the truth, or a text that explains what was sent as well."""
    received = sent(model, TEXTS[:1], noise)
    attack = prepared(model, noise, width=40)
    reconstruction = attack.reconstruct(received, np.random.default_rng(0))
    truth = attack.explain(received, plain(model, TEXTS[:1]))
    assert isinstance(attack, Explains)
    assert isinstance(attack, Starts)
    assert len(reconstruction.ids[0]) == 4
    assert reconstruction.ids[0] == tuple(plain(model, TEXTS[:1])[0])
    assert reconstruction.notes["log_likelihood"] == pytest.approx(truth["log_likelihood"], rel=1e-3)


def test_the_truth_is_where_it_stays_and_much_noise_explains_better(model: SharedModel) -> None:
    """From the truth it does not move where there is hardly noise; where there is much, it finds likelier texts."""
    truth = tuple(tuple(ids) for ids in plain(model, TEXTS))
    quiet = GaussianNoise(0.002)
    stayed = prepared(model, quiet).improve(sent(model, TEXTS, quiet), Reconstruction(truth), np.random.default_rng(0))
    assert stayed.ids == truth
    loud = GaussianNoise(5.0)
    received = sent(model, TEXTS[:1], loud)
    attack = prepared(model, loud)
    reconstruction = attack.reconstruct(received, np.random.default_rng(0))
    assert reconstruction.notes["log_likelihood"] > attack.explain(received, truth[:1])["log_likelihood"]


def test_several_draws_are_taken_for_gaussian_and_it_says_so(model: SharedModel) -> None:
    noise = DirectionalNoise(1e5)
    attack = prepared(model, noise, steps=3)
    assert attack.reconstruct(sent(model, TEXTS, noise), np.random.default_rng(0)).notes["exact"] == 0
    assert attack.reconstruct(sent(model, TEXTS[:1], noise), np.random.default_rng(0)).notes["exact"] == 1


def test_what_others_found_is_fitted_to_the_lengths(model: SharedModel) -> None:
    noise = GaussianNoise(10.0)
    received = sent(model, TEXTS, noise)
    begun = Reconstruction(((4, 4, 4, 4, 4, 4, 4), (5,), ()))
    reconstruction = prepared(model, noise, steps=1).improve(received, begun, np.random.default_rng(0))
    assert [len(ids) for ids in reconstruction.ids] == [4, 2, 4]
    same = prepared(model, noise, steps=1).improve(received, begun, np.random.default_rng(0))
    assert reconstruction == same


def test_bad_input_is_refused(model: SharedModel, tmp_path: Path) -> None:
    laplace = OnMean(0.1, "laplace")
    with refused("EPS-A033", "1"):
        prepared(model, laplace).reconstruct(sent(model, TEXTS[:1], laplace), np.random.default_rng(0))
    with refused("EPS-A034", "30522"):
        prepared(model, laplace, prior="embedded")
    causal = SharedModel(save_gpt2(tmp_path), objective="causal")
    with refused("EPS-A023"):
        prepared(causal, laplace)
