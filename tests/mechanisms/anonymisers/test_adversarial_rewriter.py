"""The adversarial rewriter: what each phase trains, gradient reversal, collapse, and equal bytes after a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.adversarial_back_translation import AdversarialBackTranslation
from epsilometer.mechanisms.anonymisers.shared import adversarial_rewriter
from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import (
    AdversarialTraining,
    Parallel,
    _Reversed,
    _Training,
    train,
)
from epsilometer.models.seq2seq import Seq2Seq
from tests.support import tiny_models
from tests.support.refusals import refused

HOW = AdversarialTraining(
    adversary_epochs=1, rewriter_epochs=1, joint_epochs=1, batch=8, rate=3e-3, length=10, alpha=0.5
)


def parallel(count: int = 60) -> Parallel:
    """Each class has words of its own; the round trip leaves out the last."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list(["acde", "bfgh"][i % 2]), 5)) for i in range(count)]
    return Parallel(texts, [text[:-2] for text in texts], ["ab"[i % 2] for i in range(count)])


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture
def uneventful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model of random weights writes few texts from the beginning."""
    monkeypatch.setattr(adversarial_rewriter, "LEAST_DISTINCT", 0)


def test_the_gradient_is_turned_around() -> None:
    states = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (_Reversed.apply(states, 0.5) ** 2).sum().backward()
    assert states.grad is not None
    assert torch.equal(states.grad, -0.5 * 2 * states.detach())


def test_the_joint_gradient_is_that_of_the_text_less_alpha_of_the_adversary(bart: Path) -> None:
    def gradient(loss: Callable[[_Training], torch.Tensor]) -> torch.Tensor:
        training = _Training(Seq2Seq(bart), parallel(), HOW, 12)
        training.adversary.eval()
        for weight in training.weights:
            weight.requires_grad_(True)
        loss(training).backward()
        return torch.cat([torch.zeros(w.numel()) if w.grad is None else w.grad.flatten() for w in training.weights])

    def inferred(training: _Training) -> torch.Tensor:
        states = training._forward(rows)[2]  # directly before the adversary
        return torch.nn.functional.cross_entropy(training.adversary(states), training.truth[rows])

    rows = np.arange(8)
    joint = gradient(lambda training: sum(training._losses(rows), torch.tensor(0.0)))
    text = gradient(lambda training: training._losses(rows)[0])
    adversary = gradient(inferred)
    assert adversary.abs().max() > 1e-4
    torch.testing.assert_close(joint, text - HOW.alpha * adversary, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("uneventful")
def test_each_phase_moves_what_is_its_own(bart: Path) -> None:
    training = _Training(Seq2Seq(bart), parallel(), HOW, 12)
    embeddings = training.model.network.get_input_embeddings().weight.clone()

    def moved(epoch: int, adversary: bool, rewriter: bool) -> tuple[bool, bool]:
        before = [part.clone() for part in (training.weights[3], training.adversary[1].weight)]
        training._epoch(epoch, adversary, rewriter)
        after = (training.weights[3], training.adversary[1].weight)
        return not torch.equal(after[1], before[1]), not torch.equal(after[0], before[0])

    for epoch, phase in enumerate(HOW.phases):
        assert moved(epoch, *phase) == phase
    assert HOW.phases == [(True, False), (False, True), (True, True)]
    assert torch.equal(embeddings, training.model.network.get_input_embeddings().weight)


@pytest.mark.usefixtures("uneventful")
def test_it_learns_to_write_round_trips_and_the_adversary_to_read(bart: Path) -> None:
    """The state that ends a text shows its class at first: the adversary alone is right far beyond chance."""
    how = replace(HOW, adversary_epochs=4, rewriter_epochs=4, joint_epochs=0)
    training = _Training(Seq2Seq(bart), parallel(100), how, 20)
    with torch.no_grad():
        before = float(training._losses(training.held)[0])
    for epoch, phase in enumerate(how.phases):
        training._epoch(epoch, *phase)
    with torch.no_grad():
        assert float(training._losses(training.held)[0]) < before - 0.5
    assert training.measured["adversary"][-1] >= 0.9
    assert len(training.measured["distinct"]) == 4


@pytest.mark.usefixtures("uneventful")
def test_a_training_that_was_killed_ends_with_the_same_bytes(
    bart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(bart, parallel(), HOW, tmp_path / "whole", tmp_path / "a")
    epoch = _Training._epoch

    def killed(training: _Training, number: int, adversary: bool, rewriter: bool) -> None:
        if number in stops:
            stops.remove(number)
            raise KeyboardInterrupt
        epoch(training, number, adversary, rewriter)

    monkeypatch.setattr(_Training, "_epoch", killed)
    stops = [0, 1, 2]
    while stops:
        with pytest.raises(KeyboardInterrupt):
            train(bart, parallel(), HOW, tmp_path / "parts", tmp_path / "b")
    assert train(bart, parallel(), HOW, tmp_path / "parts", tmp_path / "b") == whole
    for name in ("model.safetensors", "rewriter.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    written = Seq2Seq(tmp_path / "whole").network.state_dict()
    changed = [not torch.equal(part, written[name]) for name, part in Seq2Seq(bart).network.state_dict().items()]
    assert 0 < sum(changed) < len(changed)
    rewrites = AdversarialBackTranslation(resource=tmp_path / "whole", longest=20).rewrite(
        ["a c d. e f", "b"], NO_BUDGET, Noise.named(2, "x")
    )
    assert len(rewrites.texts) == 2
    assert json.loads((tmp_path / "whole/rewriter.json").read_text())["commonest"] == 0.5


def test_outputs_that_collapse_end_the_training(bart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rewritten(model: Seq2Seq, texts: list[str], longest: int, beams: int) -> list[str]:
        assert len(texts) == 12
        return [str(i % distinct) for i in range(len(texts))]

    monkeypatch.setattr(adversarial_rewriter, "rewritten", rewritten)
    distinct = 4  # 4 of 12 are 33 of a hundred
    train(bart, parallel(), HOW, tmp_path / "out", tmp_path / "kept")
    distinct = 3
    with refused("EPS-M014", "2", "25", "100"):
        train(bart, parallel(), HOW, tmp_path / "none", tmp_path / "other")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("count", "how", "refusal"),
    [
        (8, HOW, ("EPS-M010", "8")),
        (60, replace(HOW, length=65), ("EPS-M012", "length", "64", "65")),
    ],
)
def test_what_cannot_be_trained_is_refused(
    bart: Path, tmp_path: Path, count: int, how: AdversarialTraining, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        train(bart, parallel(count), how, tmp_path / "out", tmp_path / "kept")
    single_class = Parallel(["a"] * 60, ["a"] * 60, ["x"] * 60)
    with refused("EPS-M011"):
        train(bart, single_class, HOW, tmp_path / "out", tmp_path / "kept")


def test_a_folder_without_a_rewriter_is_refused(bart: Path) -> None:
    with refused("EPS-M013"):
        AdversarialBackTranslation(resource=bart).rewrite(["a"], NO_BUDGET, Noise.named(1, "x"))
