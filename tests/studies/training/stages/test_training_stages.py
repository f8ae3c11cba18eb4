"""The stages features and private_training, and the claims of trainings: from prepared texts to trained heads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read
from epsilometer.runtime import resuming
from epsilometer.studies.training.budgets import budgets
from epsilometer.studies.training.runs import private, records
from epsilometer.studies.training.runs.heads import load
from epsilometer.studies.training.stages import features
from epsilometer.studies.training.study import STUDY
from epsilometer.studies.training.tables import featured_path, features_path, head_path, runs_path, trained_path
from epsilometer.studies.training.trainings import (
    FEATURED,
    schedule,
    settings,
    texts_tested_on,
    training_texts,
)
from tests.support.featured import CELL, runs, train, write_features, write_params
from tests.support.refusals import refused
from tests.support.tiny_classifiers import save_bert_classifier

HEADS = Path("data/trained/songs")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_features()
    return tmp_path


def cells(folder: Path, **changes: Any) -> None:
    """One cell with noise at two levels, changed as said."""
    write_params(folder, private_training={"songs": {**CELL, "noise": "gaussian", "levels": [0.5, 2], **changes}})


def stamps() -> dict[str, int]:
    """When each head was written, by level and seed."""
    return {"-".join(path.parts[-3:-1]): path.stat().st_mtime_ns for path in HEADS.glob("*/*/head.safetensors")}


def heads() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in HEADS.rglob("head.safetensors")}


def test_a_head_is_trained_at_every_level_and_seed(project: Path) -> None:
    cells(project, seeds=2, noise="gaussian")
    train()
    table = runs()
    assert table.height == 2 * 2 * 2 * 4  # levels, seeds, splits, metrics
    assert table.select(pl.struct("level", "seed", "split", "metric").n_unique()).item() == table.height
    assert {*table["metric"]} == {"accuracy", "f1", "mcc", "loss"}
    assert {*stamps()} == {"0.5-0", "0.5-1", "2-0", "2-1"}
    assert len({load(head_path("songs", level, seed)).vector.tobytes() for level in (0.5, 2) for seed in (0, 1)}) == 4
    steps = tables.read(trained_path("songs", 2, 1) / "steps.parquet", records.STEPS)
    assert len(steps) == 3 * 4
    files = {"head.safetensors", "losses.npy", "scores.json", "steps.parquet"}
    assert {path.name for path in trained_path("songs", 2, 1).iterdir()} == files
    assert not [*Path("data/begun").iterdir()]


def test_without_noise_there_is_one_level_without_a_name(project: Path) -> None:
    write_params(project, private_training={"songs": {**CELL, "noise": "none", "rate": 0.1}})
    train()
    table = runs()
    assert table["level"].null_count() == len(table) == 8
    assert table.filter(split="test", metric="mcc")["value"].item() > 0.6
    assert {*stamps()} == {"none-0"}


def test_a_stopped_training_ends_in_the_same_bytes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the seed that it had finished, from the last checkpoint of the other."""
    cells(project, seeds=2, levels=[2])
    train()
    whole, table = heads(), runs_path("songs", 2).read_bytes()
    shutil.rmtree(HEADS)
    real, steps = private._Run.move, []

    def killed(run: Any, *arguments: Any) -> None:
        if len(steps) == 15:
            raise KeyboardInterrupt
        steps.append(run.step)
        real(run, *arguments)

    with resuming.running("private_training", "songs-2", lambda: "same"), monkeypatch.context() as patch:
        patch.setattr(private, "SECONDS", 0.0)
        patch.setattr(private._Run, "move", killed)
        with pytest.raises(KeyboardInterrupt):
            train()
        assert not HEADS.exists()
        steps.clear()
        train()
    assert steps == [*range(3, 12)]
    assert heads() == whole
    assert runs_path("songs", 2).read_bytes() == table
    assert not Path("data/begun").exists()


@pytest.mark.slow
def test_processes_write_the_bytes_of_one(project: Path) -> None:
    """Eight trainings are four for each of two processes."""
    cells(project, seeds=8, levels=[2])
    train()
    before, whole, table = stamps(), heads(), runs_path("songs", 2).read_bytes()
    shutil.rmtree(HEADS)
    raw = yaml.safe_load((project / "params.yaml").read_text())
    (project / "params.yaml").write_text(yaml.safe_dump(raw | {"runtime": {"workers": 2}}))
    train()
    assert len(whole) == 8
    assert heads() == whole
    assert all(stamps()[name] != before[name] for name in before)
    assert runs_path("songs", 2).read_bytes() == table


def test_texts_are_balanced_and_counted_as_asked(project: Path) -> None:
    cells(project, balance=True)
    texts = training_texts(read(), "songs")
    assert np.bincount(texts.labels).tolist() == [15, 15]  # a quarter of 60 is sad
    assert np.array_equal(texts.rows, np.unique(texts.rows))
    assert np.array_equal(texts.states, np.load(features_path("songs") / "train.npy")[texts.rows])
    cells(project, balance=True, texts=20)
    fewer = training_texts(read(), "songs")
    assert np.bincount(fewer.labels).tolist() == [10, 10]
    assert {*fewer.rows} < {*texts.rows}
    cells(project, texts=50)
    assert len(training_texts(read(), "songs")) == 50
    assert len(texts_tested_on(read(), "songs")) == 30  # the test split does not change
    assert np.bincount(texts_tested_on(read(), "songs").labels).tolist() == [22, 8]


def test_the_schedule_counts_the_texts_that_are_trained_on_and_overfitting_is_more_passes(project: Path) -> None:
    cells(project, texts=50, overfit=4)
    assert settings(read(), "songs", 50, level=0.5, seed=0).schedule == Poisson(50, 16, 12)
    cells(project, sampling="shuffled")
    assert settings(read(), "songs", 60, level=0.5, seed=0).schedule == Shuffled(60, 16, 3)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"batch": 61},
            ("EPS-S115", "songs.batch", "60", "61"),
        ),
        ({"batch": 31, "balance": True}, ("EPS-S115", "30", "31")),
        ({"test": "validation"}, ("EPS-C022", "validation")),
    ],
)
def test_what_cannot_be_trained_is_refused_before_any_work(
    changes: dict[str, Any], refusal: tuple[str, ...], project: Path
) -> None:
    cells(project, **changes)
    with refused(*refusal):
        train()
    assert not HEADS.exists()


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"batch": 61}, ("EPS-S115", "songs.batch", "60", "61")),
        ({"test": "validation"}, ("EPS-C022", "private_training.songs", "validation")),
        ({"label": "sure"}, ("EPS-S114", "2", "sure", "'yes'")),
    ],
)
def test_a_check_of_the_project_says_so_too(changes: dict[str, Any], refusal: tuple[str, ...], project: Path) -> None:
    cells(project, **{"label": "mood", **changes})
    table = tables.read(featured_path("songs"), FEATURED).with_columns(sure=pl.lit("yes"))
    params = read()
    with refused(*refusal):
        STUDY.check_texts(params, "songs", table)
    STUDY.check_texts(params, "reviews", table)  # no cell is trained on this data set


def test_labels_of_one_class_or_none_are_refused(project: Path) -> None:
    cells(project)
    table = tables.read(featured_path("songs"), FEATURED)
    for mood, got in ((pl.lit("glad"), "'glad'"), (pl.lit(None, pl.String), "no classes")):
        tables.write(table.with_columns(mood=mood), featured_path("songs"), FEATURED)
        with refused("EPS-S114", "2", "mood", got):
            train()
    odd = pl.when(pl.col("id") == "test3").then(pl.lit("angry")).otherwise("mood")
    tables.write(table.with_columns(mood=odd), featured_path("songs"), FEATURED)
    with refused("EPS-S117", "test", "angry", "mood"):
        train()


def test_features_hold_states_and_labels_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_bert_classifier(tmp_path / "data/models/minilm-mlm")
    write_params(tmp_path, private_training={"songs": {**CELL, "batch": 4, "noise": "none"}})
    words = [f"play song {i}" for i in range(12)]
    prepared = pl.DataFrame({"text": words, "split": ["test", "train", "train"] * 4, "mood": ["glad", "sad", None] * 4})
    prepared = prepared.with_columns(id=pl.int_range(pl.len()).cast(pl.String), words=pl.lit(3, pl.Int32))
    tables.write(prepared, "data/prepared/songs.parquet", PREPARED)
    features.main("songs")
    table = tables.read(featured_path("songs"), FEATURED)
    assert table.columns == ["id", "split", "mood"]  # no text leaves data/prepared
    assert table.filter(split="train")["id"].to_list() == ["1", "2", "4", "5", "7", "8", "10", "11"]
    whole = np.load(features_path("songs") / "train.npy")
    assert len(whole) == 8
    assert len(np.load(features_path("songs") / "test.npy")) == 4
    frozen = features.Frozen(tmp_path / "data/models/minilm-mlm", 32)
    assert np.allclose(frozen.states(["play song 7"]), whole[4], atol=1e-6)


BUDGETED = {
    "plain": {**CELL, "noise": "none"},
    "gaussian": {**CELL, "noise": "gaussian", "levels": [0.7, 2]},
    "scaled": {**CELL, "noise": "scaled", "levels": [0, 0.7]},
    "shuffled": {**CELL, "noise": "gaussian", "levels": [0.7], "sampling": "shuffled"},
    "vmf": {**CELL, "noise": {"kind": "vmf", "parts": True}, "levels": [3]},
}


def test_every_epsilon_says_neighbours_sampling_accountant_and_delta(project: Path) -> None:
    write_params(project, private_training=BUDGETED)
    table = budgets(read())
    assert {*table["cell"]} == {*BUDGETED} - {"plain"}
    said = table.drop("lower", "effective_sigma")
    assert said.null_count().sum_horizontal().item() == 0
    assert {*table.filter(pl.col("accountant") == "loss distribution")["delta"]} == {1 / 60}
    assert table.filter(cell="scaled")["level"].unique().to_list() == [0.7]  # sigma 0 claims nothing
    assert {*table.filter(cell="vmf")["neighbours"]} == {"replaced"}
    pure = table.filter(cell="vmf", accountant="pure")["upper"].item()
    assert pure == pytest.approx(2 * 3 * 4 * 12)  # 2 kappa per draw, for four parts and all steps
    assert table.filter(cell="vmf", accountant="published")["upper"].item() == pytest.approx(2 * 3 * 2)  # sqrt(4)


def test_the_accountant_counts_what_the_sampler_draws(project: Path) -> None:
    """The same noise costs more where batches are fixed; the cell alone says how, so that nobody can mix them up."""
    write_params(project, private_training=BUDGETED)
    table = budgets(read()).filter(level=0.7, accountant="loss distribution")
    losses = {row["cell"]: row for row in table.filter(neighbours="replaced").to_dicts()}
    assert losses["shuffled"]["lower"] > losses["gaussian"]["upper"]
    assert losses["shuffled"]["sampling"] == "shuffled"
    assert losses["gaussian"]["sampling"] == losses["scaled"]["sampling"] == "poisson"
    assert losses["gaussian"]["upper"] == losses["scaled"]["upper"]
    for name, cell in read().private_training.items():
        plan = settings(read(), name, 60, level=cell.steps[0], seed=0).schedule
        assert plan == schedule(cell, 60)
        assert plan.sampling == cell.sampling
