"""Cells of private_training that train more than a head: from token ids to weights, level by level."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read
from epsilometer.runtime import resuming
from epsilometer.studies.training.budgets import budgets
from epsilometer.studies.training.runs import private
from epsilometer.studies.training.stages import features
from epsilometer.studies.training.tables import features_path, head_path, trained_path
from tests.support.featured import CELL, runs, train, write_params
from tests.support.refusals import refused
from tests.support.tiny_classifiers import SAVE

LORA = {"bert": {"lora": {"rank": 2, "targets": ["query"]}}, "gpt2": {"lora": {"rank": 2, "targets": ["c_attn"]}}}
PARTS = {"bert": ["bert.encoder.layer.1.output.dense.", "classifier"], "gpt2": ["transformer.h.1.mlp", "score"]}
FEATURES = {"dataset": "songs", "model": "data/models/minilm-mlm", "length": 12, "what": "tokens"}


def cells(folder: Path, trains: Any, **changes: Any) -> None:
    cell = {**CELL, "noise": "gaussian", "levels": [0.5], "batch": 6, "epochs": 2, "trains": trains, **changes}
    write_params(folder, features={"songs": FEATURES}, private_training={"songs": cell})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with prepared texts; who writes of an "a" is glad."""
    monkeypatch.chdir(tmp_path)
    texts = [f"{'a b' if i % 2 else 'c d'} {' '.join('efgh'[j % 4] for j in range(i % 5))}".strip() for i in range(24)]
    of = {
        "id": [f"t{i}" for i in range(24)],
        "text": texts,
        "split": ["train"] * 16 + ["test"] * 8,
        "words": [len(text.split()) for text in texts],
        "mood": ["glad" if i % 2 else "sad" for i in range(24)],
    }
    tables.write(pl.DataFrame(of).with_columns(pl.col("words").cast(pl.Int32)), "data/prepared/songs.parquet", PREPARED)
    return tmp_path


def weights(level: float = 0.5) -> bytes:
    return head_path("songs", level, 0).read_bytes()


@pytest.mark.parametrize("kind", [*SAVE])
def test_adapters_are_trained_with_noise_and_accounted_for(kind: str, project: Path) -> None:
    SAVE[kind](project / "data/models/minilm-mlm")
    cells(project, LORA[kind])
    features.main("songs")
    assert np.load(features_path("songs") / "train.npy").shape == (16, 12)
    train()
    table = runs()
    assert table.height == 2 * 4  # splits, metrics
    assert np.isfinite(table["value"].to_list()).all()
    from safetensors.numpy import load

    trained = load(weights())
    parts = {"bert": {"bert", "classifier"}, "gpt2": {"transformer", "score"}}[kind]
    assert {name.partition(".")[0] for name in trained} == parts
    assert all(tensor.any() for tensor in trained.values())  # B began at 0
    assert budgets(read())["upper"].min() > 0


def test_parts_by_name_that_were_killed_end_in_the_same_bytes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SAVE["bert"](project / "data/models/minilm-mlm")
    cells(project, PARTS["bert"])
    features.main("songs")
    train()
    whole = weights()
    shutil.rmtree(trained_path("songs", 0.5))
    steps: list[int] = []
    real = private._Run.move

    def killed(run: Any, *arguments: Any) -> None:
        if len(steps) == 3:
            raise KeyboardInterrupt
        steps.append(run.step)
        real(run, *arguments)

    with resuming.running("private_training", "songs-0.5", lambda: "same"):
        with monkeypatch.context() as patch:
            patch.setattr(private, "SECONDS", 0.0)
            patch.setattr(private._Run, "move", killed)
            with pytest.raises(KeyboardInterrupt):
                train()
        assert steps == [0, 1, 2]
        assert [*Path("data/begun").rglob("checkpoint.safetensors")]
        train()
    assert weights() == whole


def test_another_model_trains_anew(project: Path) -> None:
    """Token ids of another model with the same words are the same; its weights are not."""
    from safetensors.numpy import load_file, save_file

    SAVE["gpt2"](project / "data/models/minilm-mlm")
    cells(project, PARTS["gpt2"])
    features.main("songs")
    train()
    before, ids = weights(), (features_path("songs") / "train.npy").read_bytes()
    path = project / "data/models/minilm-mlm/model.safetensors"
    save_file({name: 1.5 * tensor for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    features.main("songs")
    assert (features_path("songs") / "train.npy").read_bytes() == ids
    train()
    assert weights() != before


@pytest.mark.parametrize(
    ("trains", "refusal"),
    [
        (["bert.encoder.layer.9"], ("EPS-C022", "private_training.songs.trains", "bert.encoder.layer.9")),
        (
            {"lora": {"rank": 2, "targets": ["c_attn"]}},
            ("EPS-C022", "private_training.songs.trains", "c_attn"),
        ),
    ],
)
def test_parts_that_the_model_lacks_are_refused_before_any_training(
    trains: Any, refusal: tuple[str, ...], project: Path
) -> None:
    SAVE["bert"](project / "data/models/minilm-mlm")
    cells(project, trains)
    features.main("songs")
    with refused(*refusal):
        train()
    assert not list(Path("data/trained").rglob("head.safetensors"))


@pytest.mark.parametrize(
    ("trains", "refusal"),
    [
        ([], ("EPS-P060", "private_training.songs.trains", "[]")),
        ("classifier", ("EPS-P060", "private_training.songs.trains.head", "'head'", "classifier")),
        (
            {"lora": {"rank": 0, "targets": ["query"]}},
            ("EPS-P060", "private_training.songs.trains.adapters.lora.rank", "0"),
        ),
        (
            {"lora": {"rank": 2, "targets": []}},
            ("EPS-P060", "private_training.songs.trains.adapters.lora.targets", "1", "[]"),
        ),
        ("head", ("EPS-P060", "private_training.songs", "head", "'songs'")),
    ],
)
def test_settings_that_are_none_are_refused(trains: Any, refusal: tuple[str, ...], project: Path) -> None:
    cells(project, trains)
    with refused(*refusal):
        read()


def test_attacks_on_heads_refuse_other_cells(project: Path) -> None:
    cell = {**CELL, "noise": "none", "trains": ["classifier"]}
    references = {"songs": {"training": "songs", "features": "songs"}}
    write_params(project, features={"songs": FEATURES}, private_training={"songs": cell}, references=references)
    with refused("EPS-P060", "songs"):
        read()
