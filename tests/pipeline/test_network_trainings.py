"""Cells of private_training that train more than a head: from token ids to weights, level by level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.schemas import BUDGETS, RUNS
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read
from epsilometer.studies.training.stages import budgets, features, private_training
from epsilometer.studies.training.tables import budgets_path, features_path, runs_path, trained_path
from epsilometer.training import private
from tests.support.featured import CELL, write_params
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
    return (trained_path("songs", level, 0) / "head.safetensors").read_bytes()


@pytest.mark.parametrize("kind", [*SAVE])
def test_adapters_are_trained_with_noise_and_accounted_for(kind: str, project: Path) -> None:
    SAVE[kind](project / "data/models/minilm-mlm")
    cells(project, LORA[kind])
    features.main("songs")
    assert np.load(features_path("songs") / "train.npy").shape == (16, 12)
    private_training.main("songs")
    runs = tables.read(runs_path("songs"), RUNS)
    assert runs.height == 2 * 4  # splits, metrics
    assert np.isfinite(runs["value"].to_list()).all()
    from safetensors.numpy import load

    trained = load(weights())
    parts = {"bert": {"bert", "classifier"}, "gpt2": {"transformer", "score"}}[kind]
    assert {name.partition(".")[0] for name in trained} == parts
    assert all(tensor.any() for tensor in trained.values())  # B began at 0
    budgets.main()
    assert tables.read(budgets_path(), BUDGETS)["upper"].min() > 0


def test_parts_by_name_killed_or_at_another_level(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that is added trains nothing again; one that was killed in the middle ends in the same bytes."""
    SAVE["bert"](project / "data/models/minilm-mlm")
    cells(project, PARTS["bert"])
    features.main("songs")
    private_training.main("songs")
    before, stamp = weights(), (trained_path("songs", 0.5, 0) / "head.safetensors").stat().st_mtime_ns
    cells(project, PARTS["bert"], levels=[0.5, 2])
    steps: list[int] = []
    real = private._Run.move

    def killed(run: Any, *arguments: Any) -> None:
        if len(steps) == 3:
            raise KeyboardInterrupt
        steps.append(run.step)
        real(run, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(private, "SECONDS", 0.0)
        patch.setattr(private._Run, "move", killed)
        with pytest.raises(KeyboardInterrupt):
            private_training.main("songs")
    assert steps == [0, 1, 2]
    assert (trained_path("songs", 2, 0) / "checkpoint.safetensors").is_file()
    private_training.main("songs")
    resumed = weights(2)
    assert weights() == before
    assert (trained_path("songs", 0.5, 0) / "head.safetensors").stat().st_mtime_ns == stamp
    for path in trained_path("songs", 2, 0).iterdir():
        path.unlink()
    private_training.main("songs")
    assert weights(2) == resumed != before


def test_another_model_trains_anew(project: Path) -> None:
    """Token ids of another model with the same words are the same; its weights are not."""
    from safetensors.numpy import load_file, save_file

    SAVE["gpt2"](project / "data/models/minilm-mlm")
    cells(project, PARTS["gpt2"])
    features.main("songs")
    private_training.main("songs")
    before, ids = weights(), (features_path("songs") / "train.npy").read_bytes()
    path = project / "data/models/minilm-mlm/model.safetensors"
    save_file({name: 1.5 * tensor for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    features.main("songs")
    assert (features_path("songs") / "train.npy").read_bytes() == ids
    private_training.main("songs")
    assert weights() != before


@pytest.mark.parametrize(
    ("trains", "message"),
    [
        (["bert.encoder.layer.9"], r"private_training\.songs\.trains: unknown parameter 'bert\.encoder\.layer\.9'"),
        (
            {"lora": {"rank": 2, "targets": ["c_attn"]}},
            r"private_training\.songs\.trains: unknown linear layer 'c_attn'",
        ),
    ],
)
def test_parts_that_the_model_lacks_are_refused_before_any_training(trains: Any, message: str, project: Path) -> None:
    SAVE["bert"](project / "data/models/minilm-mlm")
    cells(project, trains)
    features.main("songs")
    with pytest.raises(UserError, match=message):
        private_training.main("songs")
    assert not list(trained_path("songs").glob("*/head.safetensors"))


@pytest.mark.parametrize(
    ("trains", "message"),
    [
        ([], "nothing is trainable: name parameters"),
        ("classifier", "trains.*'head'"),
        ({"lora": {"rank": 0, "targets": ["query"]}}, "rank.*greater than 0"),
        ({"lora": {"rank": 2, "targets": []}}, "targets.*at least 1 item"),
        ("head", "a head is trained on features of states, and 'songs' has tokens; name features with what: states"),
    ],
)
def test_settings_that_are_none_are_refused(trains: Any, message: str, project: Path) -> None:
    cells(project, trains)
    with pytest.raises(UserError, match=message):
        read()


def test_attacks_on_heads_refuse_other_cells(project: Path) -> None:
    cell = {**CELL, "noise": "none", "trains": ["classifier"]}
    references = {"songs": {"training": "songs", "features": "songs"}}
    write_params(project, features={"songs": FEATURES}, private_training={"songs": cell}, references=references)
    with pytest.raises(UserError, match=r"references\.songs\.training must be a cell with trains: head, got 'songs'"):
        read()
