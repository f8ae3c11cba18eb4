"""The command `exact`: two rows per budget, no rewrites, and one message for mechanisms without an exact loss."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.trials.design import Design
from tests.support.commands import call

TEXTS = ["play a song now", "play the music now", "show me a flight", "book a flight"]
VECTORS = {"play": (0, 1), "a": (0, 0), "song": (1, 0), "now": (1, 1), "flight": (2, 0), "me": (0.5, 0.5)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(TEXTS))
    Path("vectors.txt").write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in VECTORS.items()))


def test_losses_of_randomised_response_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """One text of four is kept with q = e^eps / (e^eps + 3), each other comes with q / e^eps."""
    arguments = ("exact", "texts.txt", "--mechanism", "randomized_response", "--epsilons", "1,3", "--temperature", 0)
    code, out, _ = call(capsys, *arguments, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["epsilon"], row["pairs"], row["compared"]) for row in rows] == [
        (1, "all", 6), (1, "equal length", 3), (3, "all", 6), (3, "equal length", 3),
    ]  # fmt: skip
    for row in rows:
        stays = 1 / (1 + 3 * math.exp(-row["epsilon"]))
        error = (1 - stays * (1 - math.exp(-row["epsilon"]))) / 2
        assert row["average"] == pytest.approx(math.log((1 - error) / error), abs=row["error"] + 1e-9)
        assert row["relative_epsilon"] == pytest.approx(row["epsilon"], abs=1e-9)
        assert (row["verdict"], row["method"]) == ("not refuted", "exact")
    code, out, _ = call(capsys, *arguments)
    assert out.split("\n")[0].split() == [
        "epsilon", "pairs", "compared", "average", "error", "all_low", "all_high", "median", "q95", "worst",
        "relative_epsilon", "delta_at_claim", "delta_at_4", "method", "seconds",
    ]  # fmt: skip


def test_vectors_of_ones_own_and_python_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--mechanism", "tem", "--epsilons", 8, "--vectors", "vectors.txt", "--temperature", 0, "--json")
    code, out, err = call(capsys, "exact", "texts.txt", *arguments)
    rows = {row["pairs"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["all"]["worst"] == "Infinity"  # texts of three and of four words
    assert 0 < rows["equal length"]["average"] < rows["equal length"]["relative_epsilon"]
    assert "of the words are outside the mechanism's vocabulary" in err
    table = epsilometer.exact_loss(TEXTS, "tem", [8], {"resource": "vectors.txt"}, design=Design(temperature=0))
    assert table.filter(pairs="equal length")["average"].item() == pytest.approx(rows["equal length"]["average"])


def test_an_audit_on_vectors_of_ones_own_is_that_of_the_mechanism_on_them(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "audit",
        "texts.txt",
        "--mechanism",
        "tem",
        "--epsilons",
        8,
        "--trials",
        20,
        "--attacks",
        "lexical",
        "--json",
    )
    code, out, _ = call(capsys, *arguments, "--vectors", "vectors.txt")
    assert code == 0
    assert out == call(capsys, *arguments, "--set", "resource=vectors.txt")[1]
    for wrong in (("--mechanism", "randomized_response"), ("--command", "cat")):
        code, _, err = call(capsys, "audit", "texts.txt", *wrong, "--epsilons", 8, "--vectors", "vectors.txt")
        assert (code, "--vectors" in err) == (2, True)


def test_vectors_that_are_not_normalised_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("exact", "texts.txt", "--mechanism", "tem", "--epsilons", 8, "--temperature", 0)
    for scale, mean in ((1, None), (10, "10")):
        unit = {word: np.array(at) / np.hypot(*at) for word, at in VECTORS.items() if any(at)}
        rows = (f"{word} {scale * x} {scale * y}\n" for word, (x, y) in unit.items())
        Path("scaled.txt").write_text("".join(rows))
        for settings in ((), ("--set", "normalise=true")):
            code, _, err = call(capsys, *arguments, "--vectors", "scaled.txt", *settings)
            assert code == 0
            assert (f"their mean length is {mean}," in err) == (mean is not None and not settings)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mechanism", "identity"], "states no output distribution"),
        (["--mechanism", "randomized_response"], "is not set, but this mechanism takes a privacy budget"),
        (["--mechanism", "randomized_response", "--epsilons", "one"], "--epsilons must be numbers"),
        (["--mechanism", "randomized_response", "--epsilons", "-1"], "must be a finite number > 0, got -1.0"),
        (["--mechanism", "randomized_response", "--epsilons", "1", "--trials", "0"], "trials must be >= 1"),
        (["--mechanism", "randomized_response", "--epsilons", "1", "--vectors", "vectors.txt"], "on word vectors"),
        (["--mechanism", "tem", "--epsilons", "1", "--vectors", "none.txt"], "file 'none.txt' not found"),
    ],
)
def test_one_message_for_a_mistake(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epsilometer.auditing.exact_loss.from_texts.embed", lambda texts: pytest.fail("work has begun"))
    code, out, err = call(capsys, "exact", "texts.txt", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("error:") == 1
