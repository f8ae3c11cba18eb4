"""The stage one_run: lower bounds next to accountants' epsilons, for every kind of canary and noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, NOT_TESTABLE
from epsilometer.core import tables
from epsilometer.pipeline.params import read
from epsilometer.studies.training.one_run import training
from epsilometer.studies.training.one_run.training import AUDITED
from epsilometer.studies.training.stages import one_run
from epsilometer.studies.training.tables import one_run_path
from tests.support.featured import CELL, WIDTH, write_features, write_params
from tests.support.refusals import refused
from tests.support.tiny_classifiers import save_bert_classifier

RUN: dict[str, Any] = {"training": "songs", "features": "songs", "canaries": 30, "guesses": 0.5}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whose bounds go without the family of trainings, which takes seconds for each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "family", lambda *_: None)
    write_features()
    return tmp_path


def audited(folder: Path, cell: dict[str, Any] | None = None, **run: Any) -> pl.DataFrame:
    """The table of a run with these settings."""
    training = {"songs": {**CELL, "noise": "none", **(cell or {})}}
    write_params(folder, private_training=training, one_run={"songs": {**RUN, **run}})
    one_run.main("songs")
    return tables.read(one_run_path("songs"), AUDITED)


def test_gradient_canaries_stand_beside_accountants(project: Path) -> None:
    """A false alarm has probability at most .01."""
    table = audited(project, noise="gaussian", levels=[1.0, 3.0])
    assert table.select("level", "score", "method").rows() == [
        (level, score, method)
        for level in (1.0, 3.0)
        for score in ("likelihood", "sum", "spread")
        for method in ("steinke", "f-dp")
    ]
    assert {*table["neighbours"]} == {"added or removed"}
    assert {*table["verdict"]} <= {NOT_REFUTED, NOT_TESTABLE}
    assert (table["lower"] <= table["bracket_upper"]).all()
    assert (table["bracket_lower"] <= table["bracket_upper"]).all()
    assert (table["bracket_upper"] <= table["renyi"] * 1.01).all()
    assert (table["renyi"] <= table["published"] * 1.001).all()
    assert table["delta"].unique().to_list() == [1 / 60]
    assert table["guesses"].unique().to_list() == [15]


def test_directional_noise_has_neighbours_that_are_replaced(project: Path) -> None:
    table = audited(project, {"sampling": "shuffled"}, noise="vmf", levels=[20.0], canaries=12, delta=1e-3)
    assert {*table["neighbours"]} == {"replaced"}
    assert {*table["score"]} == {"likelihood", "sum", "placed", "spread"}
    assert {*table["published"]} == {40.0}


@pytest.mark.parametrize("noise", [{"noise": "gaussian", "levels": [2.0]}, {"noise": "vmf", "levels": [3.0]}])
def test_mislabelled_canaries_are_seen_by_losses(project: Path, noise: dict[str, Any]) -> None:
    table = audited(project, kind="mislabelled", **noise)
    assert {*table["score"]} == {"loss"}
    assert {*table["canaries"]} == {30}
    assert table["verdict"][0] in (NOT_REFUTED, NOT_TESTABLE)


def test_without_noise_there_is_no_claim_and_all_is_seen(project: Path) -> None:
    table = audited(project, noise="none", guesses=None, delta=1e-6).filter(score="sum", method="f-dp")
    assert table["verdict"].to_list() == [NO_CLAIM]
    assert table["bracket_upper"].to_list() == table["level"].to_list() == [None]
    assert 0 < table["lower"].item() <= table["ceiling"].item()


def test_texts_of_random_tokens_go_through_the_model(project: Path) -> None:
    save_bert_classifier(project / "data/models/minilm-mlm", hidden_size=WIDTH, num_attention_heads=1)
    table = audited(project, kind="random", noise="gaussian", levels=[2.0], canaries=8)
    assert {*table["kind"]} == {"random"}


def test_the_same_bytes_again(project: Path) -> None:
    settings = {"noise": "gaussian", "levels": [2.0], "kind": "mislabelled"}
    audited(project, **settings)
    before = one_run_path("songs").read_bytes()
    audited(project, **settings)
    assert one_run_path("songs").read_bytes() == before


@pytest.mark.parametrize(
    ("run", "refusal"),
    [
        ({"canaries": 61, "noise": "gaussian", "levels": [1.0]}, ("EPS-T010", "60", "61")),
        ({"canaries": 61, "noise": "none", "kind": "mislabelled"}, ("EPS-T022", "61", "60")),
    ],
)
def test_more_canaries_than_texts(project: Path, run: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refused(*refusal, whole=False):
        audited(project, **run)


@pytest.mark.parametrize(
    ("run", "refusal"),
    [
        ({"features": "others"}, ("EPS-P060", "one_run.songs.features", "'songs'", "others")),
        ({"training": "other"}, ("EPS-P060", "one_run.songs.training", "private_training", "other")),
        (
            {"noise": {"kind": "vmf", "parts": True}, "levels": [9.0]},
            ("EPS-P060", "one_run.songs", "kind: mislabelled"),
        ),
        ({"kind": "gradients"}, ("EPS-P060", "one_run.songs.kind", "gradients")),
        ({"guesses": 0}, ("EPS-P060", "one_run.songs.guesses", "0")),
    ],
)
def test_bad_entries(project: Path, run: dict[str, Any], refusal: tuple[str, ...]) -> None:
    sections = {"private_training": {"songs": {**CELL, "noise": "none"}}}
    write_params(project, **sections, one_run={"songs": {**RUN, "noise": "none", **run}})
    with refused(*refusal):
        read()
