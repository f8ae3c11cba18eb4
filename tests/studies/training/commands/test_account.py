"""The command `account`: a row per statement, the noise for a target, and one message if there is no epsilon."""

from __future__ import annotations

import json

import pytest

from tests.support.commands import call

TRAINING = ("--texts", 5_056, "--batch", 128, "--epochs", 10)


def test_a_gaussian_training(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(
        capsys, "training", "account", "--noise", "gaussian", "--sigma", 0.6, *TRAINING, "--target", 8, "--json"
    )
    assert code == 0
    said = json.loads(out)
    rows = {(row["accountant"], row["neighbours"]): row for row in said["statements"]}
    exact = rows["loss distribution", "added or removed"]
    assert 8.9 < exact["lower"] < exact["upper"] < 9.0
    assert rows["Renyi", "replaced"]["lower"] is None
    assert {row["sampling"] for row in rows.values()} == {"poisson"}
    assert said["for_target"]["sigma"] == pytest.approx(0.6245, rel=1e-3)
    assert said["for_target"]["neighbours"] == "added or removed"
    assert "is at least one over the 5056 texts" in err


def test_every_noise_is_sampled_alike_unless_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (("--sigma", 0.6), ("--noise", "vmf", "--kappa", 1e3, "--dimensions", "592130")):
        _, out, _ = call(capsys, "training", "account", *options, *TRAINING, "--json")
        assert {row["sampling"] for row in json.loads(out)["statements"]} == {"poisson"}


def test_a_directional_training(capsys: pytest.CaptureFixture[str]) -> None:
    draws = ("--noise", "vmf", "--kappa", 1e4, "--dimensions", "592130", "--sampling", "shuffled")
    code, out, _ = call(capsys, "training", "account", *draws, *TRAINING)
    assert code == 0
    assert "approximation" in out
    assert "loss distribution" in out
    assert "shuffled" in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["pure"][-1] == "2e+05"
    assert rows["published"][-1] == "2e+04"


def test_without_an_amount_the_target_finds_one(capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "account",
        "--noise",
        "vmf",
        "--dimensions",
        "592130",
        *TRAINING,
        "--target",
        8,
        "--delta",
        1e-5,
        "--json",
    )
    code, out, err = call(capsys, *command)
    said = json.loads(out)
    assert code == 0
    assert "is at least one over" not in err
    assert said["statements"][0]["upper"] == pytest.approx(8, rel=0.01)
    assert said["effective_noise"] > 1


@pytest.mark.parametrize( ("options", "message"), [
        (("--sigma", 0), "sigma must be a finite number > 0"),
        ((), "gaussian noise needs --sigma"),
        (("--kappa", 3), "gaussian noise takes only --sigma"),
        (("--noise", "laplace"), "unknown --noise 'laplace'"),
        (("--noise", "vmf", "--kappa", 3), "--noise vmf needs --dimensions"),
        (("--noise", "vmf", "--kappa", -3, "--dimensions", "10"), "kappa must be a finite number > 0"),
        (("--noise", "vmf", "--kappa", "1e300", "--dimensions", "5"), "no bounds on epsilon are known"),
        (("--noise", "vmf", "--kappa", 3, "--dimensions", "1.5"), "whole numbers separated by commas"),
        (("--noise", "vmf", "--kappa", 3, "--dimensions", "10,nan"), "whole numbers separated by commas"),
        (("--noise", "vmf", "--kappa", 3, "--dimensions", "9", "--neighbours", "added or removed"), "replaced"),
        (("--sigma", 1, "--sampling", "sorted"), "unknown --sampling"),
        (("--sigma", 1, "--neighbours", "any"), "unknown --neighbours"),
        (("--sigma", 1, "--delta", 0), "no finite epsilon at delta 0"),
        (("--sigma", 1, "--delta", 1), "delta must be in [0, 1)"),
        (("--sigma", 1, "--target", 0), "the target epsilon must be a finite number > 0"),
        (("--sigma", 1, "--batch", 6_000), "at most the number of texts"),
    ],
)  # fmt: skip
def test_what_has_no_epsilon_is_said(options: tuple, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "training", "account", *TRAINING, *options)
    assert code != 0
    assert message in err
