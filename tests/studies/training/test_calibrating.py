"""The sigma and kappa at which gradients have a target loss: closed forms, and a toy with a known law."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from epsilometer.auditing.calibration.sampled import FOUND, NOT_MONOTONE, UNDECIDED
from epsilometer.studies.training.calibrating import between
from tests.support.commands import call
from tests.support.featured import CELL, write_features, write_params
from tests.support.sent import write_scores, write_sent

SIZE = 80
ENTRY: dict[str, Any] = {
    "dataset": "songs", "model": "data/models/minilm-mlm", "label": "mood", "noise": "gaussian", "levels": [0.1, 1],
    "texts": 4, "pool": 40,
}  # fmt: skip
ATTACKED = {"sent": "toy", "attacks": {"likelihood": {}}}
TARGET = 0.5


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write()


def write(**settings: Any) -> None:
    training = {"songs": {**CELL, "noise": "gaussian", "levels": [1]}}
    sections = {"sent": {"toy": ENTRY | settings}, "reconstruction": {"toy": ATTACKED}, "private_training": training}
    write_params(Path(), **sections)


def vectors(count: int = 40) -> NDArray[np.float64]:
    """Gradients of length 2 and more that have much in common."""
    generator = np.random.default_rng(0)
    every = generator.standard_normal(SIZE) + generator.standard_normal((count, SIZE))
    return 2 * every / np.linalg.norm(every, axis=1).min()


def searched(capsys: pytest.CaptureFixture[str], measure: str, *options: object) -> dict[str, dict[str, Any]]:
    command = ("--training", "toy", "--target", TARGET, "--measure", measure, "--json", *options)
    code, out, err = call(capsys, "calibrate", *command)
    assert code == 0, err
    return {row["noise"]: row for row in json.loads(out)}


def loss(sigma: float, distances: NDArray[np.float64]) -> float:
    right = ndtr(distances / (2 * sigma)).mean()
    return float(np.log(right / (1 - right)))


def test_of_two_texts_it_is_the_sigma_of_the_closed_form(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Phi(distance / 2 sigma) = e^loss / (1 + e^loss) for gradients that are scaled, or clipped, to 1."""
    pair = vectors(2)
    write_sent("toy", pair)
    unit = pair / np.linalg.norm(pair, axis=1)[:, None]
    sigma = np.linalg.norm(unit[0] - unit[1]) / (2 * ndtri(1 / (1 + np.exp(-TARGET))))
    rows = searched(capsys, "average")
    for kind in ("gaussian", "scaled"):
        assert rows[kind]["low"] < sigma < rows[kind]["high"] < 1.011 * rows[kind]["low"]
        assert (rows[kind]["parameter"], rows[kind]["status"], rows[kind]["trials"]) == ("sigma", FOUND, 0)


def test_over_pairs_it_is_where_the_mean_success_meets_the_target(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    every = vectors()
    write_sent("toy", every)
    unit = every / np.linalg.norm(every, axis=1)[:, None]
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)[np.triu_indices(len(unit), 1)]
    row = searched(capsys, "average")["gaussian"]
    assert loss(row["high"], distances) < TARGET < loss(row["low"], distances)


def test_trials_contain_what_the_law_says(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Each interval misses with probability 1 %, and the seed is fixed; the trials never see the formula."""
    write_sent("toy", vectors())
    exact, sampled = searched(capsys, "average"), searched(capsys, "sampled")
    assert list(exact) == list(sampled) == ["gaussian", "scaled", "vmf"]
    for kind, row in sampled.items():
        assert row["status"] == FOUND
        assert row["low"] < exact[kind]["level"] < row["high"] < 1.26 * row["low"]
        assert 0 < row["trials"] <= 20_000
    assert sampled == searched(capsys, "sampled")


def test_a_draw_reconstructs_as_scaled_gradients_of_its_effective_noise(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """In 80 dimensions a draw is nearly as isotropic as a Gaussian."""
    write_sent("toy", vectors())
    rows = searched(capsys, "average")
    assert rows["vmf"]["parameter"] == "kappa"
    assert rows["vmf"]["level"] > 2
    assert rows["vmf"]["effective_sigma"] == pytest.approx(rows["scaled"]["level"], rel=0.02)


def test_noise_has_the_settings_of_its_entry(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond the longest gradient, twice the clip bound is twice the noise for one sigma."""
    write_sent("toy", vectors())
    clips = []
    for clip in (100, 200):
        write(noise={"kind": "gaussian", "clip": clip})
        clips.append(searched(capsys, "average")["gaussian"]["level"])
    assert clips[0] == pytest.approx(2 * clips[1], rel=0.02)


def test_draws_by_parts_are_found_by_trials_alone(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Two draws of a kappa tell more than one of it about the whole, so that kappa must be less."""
    write(noise={"kind": "vmf", "parts": True}, levels=[10], tensors="head")
    write_sent("toy", vectors(), (SIZE // 2, SIZE // 2))
    exact = searched(capsys, "average")
    assert exact["vmf"]["status"] == "not searched"
    assert "parts" in exact["vmf"]["reason"]
    by_parts = searched(capsys, "sampled")["vmf"]
    write()
    write_sent("toy", vectors())
    whole = searched(capsys, "average")
    assert by_parts["high"] < whole["vmf"]["low"]
    assert exact["gaussian"]["level"] == pytest.approx(whole["gaussian"]["level"], rel=1e-9)


def test_a_training_is_searched_by_the_gradients_of_its_first_head(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    write_features()
    code, out, _ = call(
        capsys, "calibrate", "--training", "songs", "--target", 0.3, "--measure", "average", "--json"
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert [row["status"] for row in rows] == [FOUND] * 3
    assert rows[0]["level"] < ndtri(1 / (1 + np.exp(-0.3))) ** -1  # the sigma for two opposite gradients of length 1


def test_texts_that_nobody_tells_apart_have_no_level(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    write_sent("toy", np.repeat(vectors(2), 20, axis=0)[:39])
    code, out, err = call(capsys, "calibrate", "--training", "toy", "--target", 3, "--measure", "average")
    assert (code, "outside" in out) == (3, True)
    assert "same gradient" in err


SCORES = np.random.default_rng(1)


def scores(mean: float, count: int = 60) -> NDArray[np.float64]:
    return SCORES.beta(8 * mean, 8 * (1 - mean), count)


def test_levels_around_a_mean_score() -> None:
    """Both ends are right but with probability 1 %; the seed is fixed."""
    levels, means = [1.0, 0.3, 0.1, 0.03], [0.05, 0.15, 0.5, 0.8]
    values = [scores(mean) for mean in means]
    assert between(values, levels, 0.3, 0.01) == (FOUND, 0.3, 0.1)
    assert between(values, levels, 0.9, 0.01) == (UNDECIDED, 0.03, None)
    assert between([value[:2] for value in values], levels, 0.3, 0.01)[0] == UNDECIDED
    assert between(values[::-1], levels, 0.3, 0.01)[0] == NOT_MONOTONE


def test_scores_of_attacks_give_levels(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Two texts of a batch share its noise and count as one."""
    write_scores("toy", {level: scores(mean, 120) for level, mean in ((0.1, 0.9), (1.0, 0.05))})
    row = searched(capsys, "rouge_l")["gaussian"]
    assert (row["attack"], row["size"], row["low"], row["high"], row["trials"]) == ("likelihood", 2, 0.1, 1.0, 120)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--training", "tay"], "did you mean 'toy'"),
        (["--training", "toy", "--training", "tay"], "did you mean 'toy'"),
        (["--training", "toy"], "run dvc repro sent@toy first"),
        (["--training", "songs"], "run dvc repro features@songs first"),
        (["--training", "toy", "--measure", "worst"], "one of sampled, average, rouge_l, got 'worst'"),
        (["--training", "toy", "--measure", "attribute"], "one of sampled, average, rouge_l, got 'attribute'"),
        (["--training", "toy", "--mechanism", "tem"], "No such option: --mechanism"),
        (["--training", "toy", "--attack", "lexical"], "No such option: --attack"),
        (["--training", "toy", "--sees", "text"], "No such option: --sees"),
        (["--training", "toy", "--match", "words"], "No such option: --match"),
        (["--training", "toy", "--low", "0"], "No such option: --low"),
        (["--training", "songs", "--measure", "rouge_l"], "unknown entry of reconstruction 'songs'"),
        (["--training", "toy", "--measure", "rouge_l"], "run dvc repro reconstruction@toy first"),
        (["--training", "toy", "--measure", "rouge_l", "--target", "1.5"], "between 0 and 1, got 1.5"),
        (["--training", "toy", "--measure", "rouge_l", "--target", "1"], "between 0 and 1, got 1"),
        (["--training", "toy", "--measure", "rouge_l", "--target", "-0.1"], "between 0 and 1, got -0.1"),
        (["--training", "toy", "--target", "0"], "> 0, got 0"),
        (["--training", "toy", "--target", "-1", "--measure", "average"], "> 0, got -1"),
        (["--training", "toy", "--target", "nan"], "> 0, got nan"),
        (["--training", "toy", "--target", "90"], "set a lower target"),
        (["--training", "toy", "--target", "12"], "20,000 trials cannot prove a loss of 12 nats"),
        (["--training", "toy", "--budget", "0"], "must be >= 1, got 0"),
        (["--training", "toy", "--budget", "9"], "9 trials cannot prove a loss of 0.5 nats at alpha 0.01"),
        (["--training", "toy", "--width", "1"], "must be > 1, got 1"),
    ],
)
def test_bad_input_is_refused(project: None, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    code, out, err = call(capsys, "calibrate", "--target", "0.5", *options)
    assert (code, out) == (2, "")
    assert said in err


def test_without_a_target_it_is_asked_for(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "calibrate", "--training", "toy")
    assert code == 2
    assert "'--target'" in err


@pytest.mark.parametrize(("budget", "code"), [(11, 3), (10, 2)])
def test_a_budget_must_be_able_to_show_the_target(
    project: None, capsys: pytest.CaptureFixture[str], budget: int, code: int
) -> None:
    """Bets on successes multiply wealth by at most 1 / p* each: .65^-11 > 1 / alpha = 100 > .65^-10."""
    write_sent("toy", vectors())
    target = -np.log(1 / 0.65 - 1)
    command = ("--training", "toy", "--target", target, "--budget", budget)
    assert call(capsys, "calibrate", *command)[0] == code


def test_an_entry_without_a_pool_is_refused(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    write(pool=0)
    code, _, err = call(capsys, "calibrate", "--target", "0.5", "--training", "toy")
    assert code == 2
    assert "sent.toy.pool" in err


def test_gradients_of_an_entry_that_was_edited_since_are_refused(
    project: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another noise or level needs no other gradients."""
    write(pool=0)
    write_sent("toy", np.empty((0, SIZE)))
    write()
    code, _, err = call(capsys, "calibrate", "--target", "0.5", "--training", "toy")
    assert code == 2
    assert "sent.toy was edited since its stage ran; run dvc repro sent@toy first" in err
    write_sent("toy", vectors())
    write(noise="vmf", levels=[3])
    assert [row["status"] for row in searched(capsys, "average").values()] == [FOUND] * 3


def test_a_training_without_noise_is_searched_like_others(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    write_features()
    command = ("calibrate", "--training", "songs", "--target", 0.3, "--measure", "average", "--json")
    noisy = call(capsys, "training", *command)[1]
    write_params(Path(), private_training={"songs": {**CELL, "noise": "none"}})
    assert call(capsys, "training", *command) == (0, noisy, "")


@pytest.mark.parametrize(
    ("entry", "attacks", "said"),
    [
        ({"noise": "none", "levels": None}, {"likelihood": {}}, "the noise of sent.toy is 'none'"),
        ({}, {"candidates": {}}, "no attack searches for the text"),
        ({"levels": [0.1, 0.5, 1]}, {"likelihood": {}}, "no results at the level 0.5; run dvc repro"),
    ],
)
def test_what_gives_no_rouge_l_is_refused(
    project: None, capsys: pytest.CaptureFixture[str], entry: dict[str, Any], attacks: dict[str, Any], said: str
) -> None:
    write_scores("toy", {level: scores(0.5, 20) for level in (0.1, 1.0)})
    write_params(Path(), sent={"toy": ENTRY | entry}, reconstruction={"toy": {"sent": "toy", "attacks": attacks}})
    code, out, err = call(capsys, "calibrate", "--training", "toy", "--target", "0.5", "--measure", "rouge_l")
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("target", "said"), [(0.99, "surely above 0.99 (add levels with less noise"), (0.01, "surely below 0.01 (add")]
)
def test_a_score_beyond_all_levels_says_on_which_side_they_lack(
    project: None, capsys: pytest.CaptureFixture[str], target: float, said: str
) -> None:
    write_scores("toy", {level: scores(mean, 120) for level, mean in ((0.1, 0.9), (1.0, 0.1))})
    code, out, err = call(capsys, "calibrate", "--training", "toy", "--target", target, "--measure", "rouge_l")
    assert (code, UNDECIDED in out) == (3, True)
    assert said in err
