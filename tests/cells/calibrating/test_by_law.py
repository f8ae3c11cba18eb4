"""The epsilon at which a loss proved by a law meets a target: on texts, in cells, and from the command line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from scipy.optimize import brentq

import epsilometer
from epsilometer.auditing.schemas import EXACT, TRIALS
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import Search
from epsilometer.cells.tables import exact_path
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.calibrating import calibrate_cells
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import exact
from epsilometer.text.vectors import WordVectors
from tests.support.commands import call
from tests.support.refusals import refused

TEXTS = ["play a song", "book a flight", "show me trains", "sing"]
UNIFORM = Design(temperature=0)  # needs no embeddings


def stays(epsilon: float) -> float:
    """How likely randomised response among the four texts keeps one; any other comes with e^-epsilon times that."""
    return 1 / (1 + 3 * math.exp(-epsilon))


def loss(epsilon: float) -> float:
    error = (1 - stays(epsilon) * (1 - math.exp(-epsilon))) / 2
    return math.log((1 - error) / error)


def delta(epsilon: float, level: float) -> float:
    return stays(epsilon) * (1 - math.exp(level - epsilon))


def calibrated(measure: str, target: float, **search: Any) -> dict[str, Any]:
    chosen = Search(measure=measure, **search)
    table = epsilometer.calibrate(TEXTS, "randomized_response", target=target, search=chosen, design=UNIFORM)
    return table.to_dicts()[0]


@pytest.mark.parametrize("measure", ["average", "worst"])
@pytest.mark.parametrize("target", [0.3, 4.0])
def test_the_epsilon_of_a_loss_by_its_formula(measure: str, target: float) -> None:
    row = calibrated(measure, target)
    truth = brentq(lambda epsilon: loss(epsilon) - target, 0.01, 20)
    assert row["low"] <= truth <= row["high"] <= row["low"] * 1.01
    assert (row["status"], row["sees"], row["trials"], row["by"], row["attacks"], row["reason"]) == (
        "found", "units", 0, measure, None, None,
    )  # fmt: skip


def test_the_worst_pair_is_that_of_all_pairs_where_they_are_few(tmp_path: Path) -> None:
    """The default design pairs each text with the one most dissimilar to it, which need not lose the most."""
    rng = np.random.default_rng(0)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
    WordVectors(names, rng.normal(size=(20, 3)).astype(np.float32)).save(tmp_path / "v.npz")
    texts = [" ".join(rng.choice(names, 3)) for _ in range(30)]
    settings, search = {"resource": str(tmp_path / "v.npz")}, Search(measure="worst", high=50.0)
    (row,) = epsilometer.calibrate(texts, "santext", target=1.0, settings=settings, search=search).to_dicts()
    assert row["reason"] is None
    of_all = epsilometer.exact_loss(texts, "santext", [row["low"]], settings, design=UNIFORM)
    assert of_all.filter(pairs="equal length")["worst"].item() <= 1.0


def test_a_worst_pair_of_some_is_said() -> None:
    texts = [f"play number {number}" for number in range(70)]
    search = Search(measure="worst")
    (row,) = epsilometer.calibrate(texts, "randomized_response", target=2.0, search=search).to_dicts()
    assert row["status"] == "found"
    assert "of 2,415 pairs of texts; another may lose more" in row["reason"]


def test_the_epsilon_of_a_delta_by_its_formula() -> None:
    row = calibrated("delta", 1e-3, at=2.0)
    truth = brentq(lambda epsilon: delta(epsilon, 2.0) - 1e-3, 2.0, 5.0)
    assert row["low"] <= truth <= row["high"] <= row["low"] * 1.01


def test_where_there_is_no_epsilon() -> None:
    above, below = calibrated("average", 0.1, low=3.0, high=5.0), calibrated("average", 9.0, low=3.0, high=5.0)
    assert [row["status"] for row in (above, below)] == ["outside", "outside"]
    assert f"the average loss is {loss(3.0):.3g} at epsilon 3; lower `low` (--low)" in above["reason"]
    assert f"{loss(5.0):.3g} at epsilon 5; raise `high` (--high)" in below["reason"]
    (row,) = epsilometer.calibrate(
        TEXTS, lambda text, epsilon, rng: text, target=1.0, search=Search(measure="worst"), design=UNIFORM
    ).to_dicts()
    assert (row["status"], row["epsilon"]) == ("not searched", None)
    assert "states no output distribution" in row["reason"]


def test_where_no_epsilon_meets_the_target_no_other_range_is_advised(tmp_path: Path) -> None:
    """Half of the pairs are told apart by their number of words whatever the epsilon: ln 3 nats, nearly."""
    rng = np.random.default_rng(0)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
    WordVectors(names, rng.normal(size=(20, 3)).astype(np.float32)).save(tmp_path / "v.npz")
    texts = [" ".join(rng.choice(names, 3 + i % 2)) for i in range(30)]
    settings, search = {"resource": str(tmp_path / "v.npz")}, Search(measure="average", match="none")
    (row,) = epsilometer.calibrate(
        texts, "santext", target=0.5, settings=settings, search=search, design=UNIFORM
    ).to_dicts()
    assert row["status"] == "outside"
    at = [float(loss) for loss in re.findall(r"([\d.]+) at epsilon", row["reason"])]
    assert at[0] == at[1] == pytest.approx(math.log(3), abs=0.15)
    assert "no epsilon meets the target" in row["reason"]
    assert "--low" not in row["reason"]
    search = Search(attack="likelihood", low=0.01, budget=4000)
    (row,) = epsilometer.calibrate(
        texts, "santext", target=0.5, settings=settings, search=search, design=UNIFORM
    ).to_dicts()
    assert (row["status"], row["by"]) == ("outside", "posteriors")
    assert "no epsilon meets the target" in row["reason"], "the search by trials says so, too"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set with trials, as an audit leaves them."""
    monkeypatch.chdir(tmp_path)
    table = {"id": map(str, range(4)), "text": TEXTS, "split": "train", "words": [3, 3, 3, 1]}
    tables.write(pl.DataFrame(table, schema=dict(PREPARED)), "data/prepared/songs.parquet", PREPARED)
    trials = {"trial": range(3), "candidates": [(0, 1), (1, 2), (0, 3)], "target": [0, 1, 0]}
    tables.write(pl.DataFrame(trials, schema=dict(TRIALS)), "data/trials/songs.parquet", TRIALS)
    own = {"mechanism": "randomized_response", "resource": "data/prepared/songs.parquet", "epsilons": [1, 6]}
    params = {
        "audit": {"seed": 0},
        "datasets": {"songs": {"source": "songs.txt"}},
        "trials": {"count": 10},
        "words": {"sources": {"own": "songs.txt"}},
        "mechanisms": {"randomized_response": own, "identity": {"mechanism": "identity"}},
        "cells": {
            "songs-randomized_response": {"dataset": "songs", **own},
            "songs-identity": {"dataset": "songs", "mechanism": "identity"},
        },
        "attacks": {"length": {}},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))


def test_a_cell_goes_back_to_the_epsilon_of_its_exact_loss(project: None, capsys: pytest.CaptureFixture[str]) -> None:
    exact.main("songs-randomized_response")
    table = tables.read(exact_path("songs-randomized_response"), EXACT)
    target = table.filter(epsilon=6, pairs="equal length")["average"].item()
    code, out, _ = call(capsys, "calibrate", "--target", target, "--measure", "average", "--high", 20, "--json")
    rows = {row["mechanism"]: row for row in json.loads(out)}
    assert code == 0
    interval = rows["randomized_response"]
    assert interval["status"] == "found"
    assert interval["low"] <= 6 * 1.001
    assert interval["high"] >= 6 / 1.001
    assert "has no privacy budget" in rows["identity"]["reason"]
    assert not Path("data/calibrating").exists()  # nothing was rewritten


@pytest.mark.parametrize(
    ("search", "target", "refusal"),
    [
        ({"measure": "median"}, 1.0, ("EPS-S062", "measure")),
        ({"measure": "delta"}, 0.1, ("EPS-S053", "measure", "delta", "--at")),
        ({"measure": "average", "at": 1.0}, 1.0, ("EPS-S054", "at", "1.0", "average")),
        ({"at": 1.0}, 1.0, ("EPS-S054", "at", "1.0", "sampled")),
        ({"measure": "delta", "at": -1.0}, 0.1, ("EPS-S056", "delta", "0")),
        ({"measure": "delta", "at": 1.0}, 2.0, ("EPS-S057", "0", "1", "2")),
    ],
)
def test_mistakes(search: dict[str, Any], target: float, refusal: tuple[str, ...], project: None) -> None:
    with refused(*refusal):
        list(calibrate_cells(read(), target, Search(**search)))
