"""The training loop: its computation, its refusals, and that a kill changes no byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.core.randomness import Noise
from epsilometer.models.optimisers import BETAS, DECAY, EPSILON
from epsilometer.studies.training.runs import private
from epsilometer.studies.training.runs.heads import BertHead, Head
from epsilometer.studies.training.runs.private import train
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.small_training import TEXTS, WIDTH, Recorded, head, settings, texts
from tests.support.waiting import finished


def test_steps_are_those_of_the_published_algorithm() -> None:
    """By hand, text by text: clipping to 1, the noise of the step, division by q N, AdamW in float64."""
    states, labels = texts()
    chosen = settings(schedule=Shuffled(TEXTS, 16, 2), dropout=False)
    trained = train(head(0), states, labels, chosen)
    own = head(0)
    order = chosen.streams("batches").generator(0).permutation(TEXTS)
    parts = [np.sort(part) for part in np.split(order, [14, 27])]
    mean = square = np.zeros(own.size)
    for step in range(6):
        batch = parts[step % 3]
        total = np.zeros(own.size)
        for i in batch:
            gradient = own.gradients(states[[i]], labels[[i]]).weighted_sum(np.ones(1)).astype(np.float64)
            total += gradient / max(1, np.linalg.norm(gradient))
        total += chosen.streams("noise", repr(chosen.noise)).generator(step).standard_normal(own.size) * 0.1
        gradient = total / (TEXTS / 3)
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
        moved = mean / (1 - BETAS[0] ** (step + 1)) / (np.sqrt(square / (1 - BETAS[1] ** (step + 1))) + EPSILON)
        own.vector[...] = own.vector * (1 - 0.01 * DECAY) - 0.01 * moved
    assert np.allclose(trained.head.vector, own.vector, atol=2e-5)
    assert not np.allclose(trained.head.vector, head(0).vector, atol=1e-2)


def test_a_head_learns_and_the_given_one_is_not_changed() -> None:
    states, labels = texts()
    first = head()
    trained = train(first, states, labels, settings(Poisson(TEXTS, 10, 100), rate=0.05))
    assert np.array_equal(first.vector, head().vector)
    assert (trained.head.probabilities(states).argmax(1) == labels).mean() > 0.9
    assert trained.losses[-1] < 0.5 * trained.losses[0]
    assert trained.losses[-1] == pytest.approx(trained.head.losses(states, labels).mean())


def test_noise_differs_from_step_to_step_and_from_level_to_level() -> None:
    """One noise for all steps would cancel in differences of steps; one for all levels would, in those of levels."""
    states, labels = texts()
    ones = []
    for sigma in (0.1, 0.2):
        chosen = settings(noise=Recorded(sigma))
        train(head(), states, labels, chosen)
        ones += [noise / sigma for _, _, noise in chosen.noise.seen]  # type: ignore[attr-defined]
    assert len(ones) == 40
    assert len({round(noise, 6) for noise in ones}) == 40


def test_an_empty_batch_is_a_step_with_noise() -> None:
    """Whoever skips it takes fewer steps than are accounted, and shows that no text was in it."""
    states, labels = texts()
    chosen = settings(Poisson(TEXTS, 1, 2))
    trained = train(head(), states, labels, chosen)
    seen = chosen.noise.seen  # type: ignore[attr-defined]
    assert len(seen) == chosen.schedule.steps == 80
    assert [count for count, _, _ in seen] == trained.batches.tolist()
    assert 10 < (trained.batches == 0).sum() < 50  # 29 of 80 expected; fails in less than 1 of 100,000 runs
    assert np.array_equal(np.isnan(trained.norms), trained.batches == 0)
    assert all(noise != 0 for _, _, noise in seen)


def test_division_is_by_the_expected_batch_whatever_the_batch_at_hand() -> None:
    states, labels = texts()
    chosen = settings(Poisson(TEXTS, 15, 4))
    train(head(), states, labels, chosen)
    seen = chosen.noise.seen  # type: ignore[attr-defined]
    assert {expected for _, expected, _ in seen} == {Fraction(TEXTS, 3)}
    assert len({count for count, _, _ in seen}) > 2


def test_dropout_is_drawn_anew_at_every_step_and_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    states, labels = texts()
    bits = []
    masks = BertHead.masks

    def noted(self: Head, count: int, generator: np.random.Generator) -> NDArray[np.float32] | None:
        mask = masks(self, count, generator)  # type: ignore[arg-type]
        bits.append(None if mask is None else mask.tobytes())
        return mask

    monkeypatch.setattr(BertHead, "masks", noted)
    whole = Shuffled(TEXTS, TEXTS, 8)
    with_masks = train(head(0.5), states, labels, settings(whole))
    assert len({*bits}) == 8
    without = train(head(0.5), states, labels, settings(whole, dropout=False))
    assert len(bits) == 8
    assert not np.array_equal(with_masks.head.vector, without.head.vector)


def test_seeds_alone_decide_and_the_operating_system_repeats_nothing() -> None:
    states, labels = texts()
    vectors = [train(head(), states, labels, settings(seed=seed)).head.vector for seed in (0, 0, 1, None, None)]
    assert np.array_equal(vectors[0], vectors[1])
    assert len({vector.tobytes() for vector in vectors}) == 4


def steps(checkpoint: bytes) -> int:
    """The number of steps after which it was written, from the head of the file."""
    head = json.loads(checkpoint[8 : 8 + int.from_bytes(checkpoint[:8], "little")])
    return int(json.loads(head["__metadata__"]["about"])[1])


def test_killed_at_several_points_it_ends_in_the_same_bytes(tmp_path: Path) -> None:
    """By SIGKILL, in a step and while it writes a checkpoint."""
    states, labels = texts()
    undisturbed = train(head(), states, labels, settings())
    parts = undisturbed.head.vector, undisturbed.norms, undisturbed.losses
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    command = [sys.executable, "-m", "tests.support.small_training", str(checkpoint), str(out)]
    written = []
    for place in ("step", "checkpoint"):
        process = subprocess.Popen([*command, place], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n", "it ended before it was killed"
        process.send_signal(signal.SIGKILL)
        finished(process)
        written.append(checkpoint.read_bytes())
    assert [*map(steps, written)] == [3, 5]  # the second run resumed where the first stopped
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert out.read_bytes() == b"".join(part.tobytes() for part in parts)
    assert not checkpoint.exists()


def stopped(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that ended in an error after some steps."""
    monkeypatch.setattr(private, "SECONDS", 0.0)
    look = private._Run.look

    def fail(run: private._Run, *texts: object) -> None:
        look(run, *texts)  # type: ignore[arg-type]
        if run.step == 8:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(private._Run, "look", fail)
        with pytest.raises(KeyboardInterrupt):
            train(head(), *texts(), settings(), checkpoint)


@pytest.mark.parametrize(
    "changes",
    [{"rate": 0.02}, {"noise": Recorded(0.3)}, {"schedule": Poisson(TEXTS, 10, 6)}, {"seed": 1}, {"optimizer": "sgd"}],
)
def test_a_checkpoint_of_other_settings_is_refused(
    changes: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path / "checkpoint", monkeypatch)
    with refused("EPS-T024"):
        train(head(), *texts(), settings(**changes), tmp_path / "checkpoint")  # type: ignore[arg-type]


def test_a_checkpoint_of_other_texts_labels_or_head_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path / "checkpoint", monkeypatch)
    states, labels = texts()
    moved, turned = states.copy(), labels.copy()
    moved[-1, -1] += 1
    turned[-1] = 1 - turned[-1]
    for first, of, by in ((head(), moved, labels), (head(), states, turned), (head(0.2), states, labels)):
        with refused("EPS-T024"):
            train(first, of, by, settings(), tmp_path / "checkpoint")
    (tmp_path / "checkpoint").write_bytes(b"half a file")
    with refused("EPS-T023"):
        train(head(), states, labels, settings(), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("of", "labels", "changes", "refusal"),
    [
        (TEXTS - 1, [0, 1], {}, ("EPS-T025", "40", "39")),
        (TEXTS, [1, 1], {}, ("EPS-T027",)),
        (TEXTS, [0, 2], {}, ("EPS-T028", "0", "1", "2")),
        (TEXTS, [0, 1], {"rate": 0.0}, ("EPS-T029", "rate", "0.0")),
        (TEXTS, [0, 1], {"seed": None}, ("EPS-T030",)),
    ],
)
def test_what_cannot_be_trained_is_refused(
    of: int, labels: list[int], changes: dict[str, object], refusal: tuple[str, ...], tmp_path: Path
) -> None:
    states = np.zeros((of, WIDTH), np.float32)
    with refused(*refusal):
        train(head(), states, np.resize(labels, of), settings(**changes), tmp_path / "c")  # type: ignore[arg-type]


def test_states_of_another_model_are_refused() -> None:
    with refused("EPS-T026", "6", "7"):
        train(head(), np.zeros((TEXTS, 7), np.float32), np.resize([0, 1], TEXTS), settings())


def test_streams_are_named_apart() -> None:
    """Batches, masks and noise of a step share no randomness."""
    chosen = settings()
    first = [chosen.streams(*name).generator(3).random() for name in (["batches"], ["dropout"], ["noise", "x"])]
    assert len({*first}) == 3
    assert isinstance(chosen.streams("batches"), Noise)
