"""Stage sweeps and its section of the report: a known mechanism, on the same trials at every value."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import SWEEPS
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import sweeps as stage
from epsilometer.report.cells import sweeps
from tests.support.places import ROOT
from tests.support.refusals import refused

MINE = """
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Keeps:
    share: float = 0.5
    idle: float = 0.0

    def rewrite(self, texts, epsilon, noise):
        keep = noise.uniforms()[:, 0] < self.share * min(1, epsilon)
        return Rewrites([text if k else "nothing" for text, k in zip(texts, keep)])

    def guarantee(self, epsilon):
        return None
"""
TEXTS = [f"play {song} by {band}" for song in ("blue", "red moon", "rain") for band in ("the owls", "ann", "two men")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run's folder with nine texts, before the stage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    pl.DataFrame({"text": TEXTS, "split": "train"}).write_csv("songs.csv")
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    settings: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    entry = {"mechanism": "mine", "file": "mine.py", "epsilons": [1], "resource": "songs.csv", "settings": {}}
    settings |= {
        "datasets": {"songs": {"source": "songs.csv", "labels": [], "use": "train", "match": "none"}},
        "mechanisms": {"mine": entry},
        "cells": {"songs-mine": {"dataset": "songs", **entry}},
        "attacks": {"embedding": {}},
        "models": {},
        "words": {"sources": {"own": "songs.csv"}, "lists": 1},
        "ablations": {},
        "exemplars": {},
        "decide": {},
        "sweeps": {
            "songs-mine": {
                "dataset": "songs",
                **entry,
                "epsilon": 1,
                "trials": 40,
                "vary": {"share": [0, 0.5, 1], "idle": [1, 2], "epsilon": [0.5, 1]},
            }
        },
    }
    texts = {"id": [str(i) for i in range(9)], "text": TEXTS, "split": ["train"] * 9, "words": [3] * 9}
    tables.write(pl.DataFrame(texts, schema=dict(PREPARED)), "data/prepared/songs.parquet", PREPARED)
    vectors = np.random.default_rng(0).normal(size=(9, 384)).astype(np.float32)
    tables.write_array(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "data/embeddings/songs.npy")
    return settings


def save(settings: dict[str, Any]) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def test_one_setting_varies_on_the_same_trials(project: dict[str, Any]) -> None:
    project["embedding"] = {"model": "all-MiniLM-L6-v2", "precision": "float32"}
    save(project)
    stage.main("songs-mine")
    table = tables.read("data/varied/sweeps/songs-mine.parquet", SWEEPS)
    assert table.select("setting", "value", "epsilon").rows() == [
        ("share", 0, 1), ("share", 0.5, 1), ("share", 1, 1), ("idle", 1, 1), ("idle", 2, 1),
        ("epsilon", 0.5, 0.5), ("epsilon", 1, 1),
    ]  # fmt: skip
    share = table.filter(setting="share")
    assert share["cosine"].is_sorted()
    assert share["cosine"][2] == pytest.approx(1, abs=1e-6)
    assert share["bertscore"][2] == pytest.approx(1, abs=1e-4)
    assert share["point"][0] < 1 < share["loss"][2] <= share["ceiling"][2]
    numbers = ("cosine", "bertscore", "point", "loss")
    assert table.filter(setting="idle").select(numbers).n_unique() == 1  # the same trials and noise
    assert (
        table.filter(setting="epsilon", value=1.0).select(numbers).rows()
        == table.filter(setting="share", value=0.5).select(numbers).rows()
    )
    assert [row["value"] for row in sweeps.varied(table).rows[:3]] == ["0", "0.5", "1"]
    figure = sweeps.figure(table, ["mine", "other"])
    assert set(figure["datasets"]) == {"sweep share", "sweep idle", "sweep epsilon"}
    assert len(figure["datasets"]["sweep share"]) == 3
    from epsilometer.report.figures import svg

    picture = svg(figure)
    assert "BERTScore" in picture
    assert "nominal ε" in picture


@pytest.mark.parametrize(
    ("sweep", "refusal"),
    [
        ({"songs-min": {"epsilon": 1, "vary": {"share": [1]}}}, ("EPS-P060", "sweeps", "'songs-min'")),
        ({"songs-mine": {"epsilon": 1, "vary": {}}}, ("EPS-P060", "sweeps.songs-mine.vary", "1")),
        (
            {"songs-mine": {"epsilon": 1, "vary": {"share": []}}},
            ("EPS-P060", "sweeps.songs-mine.vary.share", "1", "[]"),
        ),
        ({"songs-mine": {"epsilon": 0, "vary": {"share": [1]}}}, ("EPS-P060", "sweeps.songs-mine.epsilon", "0.0")),
        (
            {"songs-mine": {"epsilon": 1, "vary": {"epsilon": [1, -2]}}},
            ("EPS-P060", "-2.0", "sweeps.songs-mine.vary.epsilon[1"),
        ),
        ({"songs-mine": {"epsilon": 1, "vary": {"shar": [1]}}}, ("EPS-C022", "sweeps.songs-mine.vary.shar", "'shar'")),
    ],
)
def test_a_bad_sweep_is_refused_before_anything_runs(
    project: dict[str, Any], sweep: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    project["words"]["sources"] = {"own": str(ROOT / "data/embedded/all-MiniLM-L6-v2.json")}
    cell = project["cells"]["songs-mine"]
    save(project | {"sweeps": {name: {**cell, **varied} for name, varied in sweep.items()}})
    with refused(*refusal):
        check(read())
