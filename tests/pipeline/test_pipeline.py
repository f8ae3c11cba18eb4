"""The whole pipeline on a project of 20 texts. Which stages an edit touches is tested in test_code."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from epsilometer.project import times
from tests.support.dvc_project import compose, make_project
from tests.support.places import ROOT
from tests.support.warm import Warm

VARIED = {"epsilon": 1, "trials": 50, "candidates": [2, 4], "temperatures": [0], "seeds": 2, "matches": ["none"]}
TEXTS = [f"please play song {i} by artist {chr(97 + i)}" for i in range(20)]


class Project:
    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "DVC_NO_ANALYTICS": "1",
        }

    def run(self, *command: str) -> str:
        code, said = self.warm.run(command, self.folder, self.environment, errors=False)
        assert code == 0, said
        return said

    def repro(self, *targets: str) -> set[str]:
        """The stages that ran, but for `code`, which always does."""
        lines = self.run("dvc", "repro", *targets).splitlines()
        return {line.split("'")[1] for line in lines if line.startswith("Running stage")} - {"code", "resources"}


EMPTY = (
    *("models", "triples", "autoencoders", "noise_aware", "auxiliaries", "rewriters", "features", "private_training"),
    *("references", "membership", "one_run", "sent", "reconstruction", "downstream", "anonymity", "sweeps"),
)


def settings() -> dict[str, Any]:
    """The parameters of the project, whose other sections are empty."""
    rr = "epsilometer/mechanisms/controls/randomized_response.py"
    mechanisms = {
        "rr": {"mechanism": "rr", "file": rr, "resource": "data/prepared/songs.parquet", "epsilons": [1, 5]},
        "mine": {"mechanism": "mine", "file": "mine.py", "resource": "data/prepared/songs.parquet", "epsilons": [1]},
        "santext": {
            "mechanism": "santext",
            "file": "epsilometer/mechanisms/words/santext.py",
            "resource": "data/vectors/own.npz",
            "epsilons": [2],
        },
    }
    return {
        **{section: {} for section in EMPTY},
        "root": ".",
        "title": "Twenty texts",
        "audit": {"seed": 0, "round": 0, "alpha": 0.01},
        "datasets": {
            "songs": {"source": "songs.csv", "labels": ["intent"], "use": "train", "match": None, "public": True}
        },
        "embedding": {"model": "all-MiniLM-L6-v2", "precision": "float32"},
        "trials": {"count": 200, "candidates": 2, "temperature": -10000},
        "words": {"sources": {"own": "vectors.txt"}, "lists": 1},
        "mechanisms": mechanisms,
        "cells": {f"songs-{name}": {**entry, "dataset": "songs"} for name, entry in mechanisms.items()},
        "attacks": {"lexical": {}, "likelihood": {}},
        "instrument": {"epsilons": [1], "trials": 2000},
        "claims": {"vocabulary": 3},
        "exact": {"pairs": 100, "width": 0.02, "all_pairs": True},
        "utility": {"texts": 50, "target": 1.0, "metrics": {"changed": {}, "bleu": {}}},
        "ablations": {"songs-rr": {**mechanisms["rr"], "dataset": "songs", **VARIED}},
        "runtime": {"block": 65536, "workers": 1},
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Project:
    folder = tmp_path_factory.mktemp("project")
    for name in ("epsilometer", "tasks"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "data/embedded/models").mkdir(parents=True)
    (folder / "data/embedded/models/README.md").write_text("none here")
    for name in (".dvcignore", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    pl.DataFrame({"text": [*TEXTS, TEXTS[0]], "intent": ["PlayMusic"] * 21}).write_csv(folder / "songs.csv")
    mine = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < 0.5 else 'play'\n"
    (folder / "mine.py").write_text(mine)
    (folder / "vectors.txt").write_text(
        "".join(f"{w} {i} {i * i % 7}\n" for i, w in enumerate(["play", "song", "by", "a"]))
    )
    (folder / "params.yaml").write_text(yaml.safe_dump(settings()))
    compose(folder)
    sandbox = Project(folder, warm)
    make_project(folder)
    assert sandbox.repro() == {
        "prepare@songs", "embed@songs", "trials@songs", "vectors@own", "lists", "claims", "similarity",
        "ablations@songs-rr",
        "rewrite@songs-rr", "rewrite@songs-mine", "rewrite@songs-santext",
        "attack@songs-rr", "attack@songs-mine", "attack@songs-santext", "estimate", "report",
        "exact@songs-rr", "exact@songs-mine", "exact@songs-santext", "ceilings", "decide", "ways",
    }  # fmt: skip
    return sandbox


def test_what_comes_out(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    assert times.read().keys() >= {"rewrite@songs-rr", "attack@songs-rr", "report"}
    assert min(times.read().values()) > 0
    estimates = pl.read_parquet(project.folder / "data/estimates.parquet")
    chosen = ("strongest", "strongest_inside")
    assert estimates.select("mechanism", "epsilon", "attack").sort("mechanism", "epsilon", "attack").rows() == [
        *(("mine", 1, attack) for attack in ("lexical", *chosen)),
        *(("rr", 1, attack) for attack in ("lexical", "likelihood", *chosen)),
        *(("rr", 5, attack) for attack in ("lexical", "likelihood", *chosen)),
        *(("santext", 2, attack) for attack in ("lexical", "likelihood", *chosen)),
    ]
    rr = estimates.filter(mechanism="rr", epsilon=5)
    assert rr["successes"].to_list()[-1] == max(rr["successes"])
    assert rr["loss"].to_list()[-1] < max(rr["loss"])
    assert estimates.select("mechanism", "epsilon", "verdict").unique().sort("mechanism", "epsilon").rows() == [
        ("mine", 1, "no claim"), ("rr", 1, "not refuted"), ("rr", 5, "not testable"), ("santext", 2, "not refuted"),
    ]  # fmt: skip
    claims = pl.read_parquet(project.folder / "data/claims.parquet")
    assert claims.select("mechanism", "epsilon", "verdict", "method", "inputs").rows() == [
        ("mine", 1, "no claim", "none", 0),
        ("rr", 1, "not refuted", "exact", 20),
        ("rr", 5, "not refuted", "exact", 20),
        ("santext", 2, "not refuted", "exact", 3),
    ]
    assert pl.read_parquet(project.folder / "data/deniability.parquet")["stays"].item() > 0
    rows = {cell: pl.read_parquet(project.folder / f"data/exact/songs-{cell}.parquet") for cell in ("rr", "mine")}
    # One of 20 texts is kept. The pure loss of every pair is epsilon, and the guess loss is smaller.
    assert rows["rr"].filter(pairs="equal length")["relative_epsilon"].to_list() == pytest.approx([1, 5])
    assert (rows["rr"]["average_high"] < rows["rr"]["relative_epsilon"]).all()
    assert rows["mine"].is_empty()
    ablations = pl.read_parquet(project.folder / "data/varied/ablations/songs-rr.parquet")
    assert ablations.group_by("factor").len().sort("factor").rows() == [
        ("candidates k", 6), ("equal length", 3), ("seed", 6), ("temperature", 3),
    ]  # fmt: skip
    of_attacks = ablations.filter(~pl.col("attack").is_in(chosen))
    assert ablations["by_rates"].null_count() == len(ablations) - len(of_attacks)
    assert (of_attacks["by_rates"] <= of_attacks["by_rates_point"]).all()
    assert of_attacks["by_rates_point"].max() > 0
    assert pl.read_parquet(project.folder / "data/tokens/songs-rr.parquet").is_empty()
    cut = pl.read_parquet(project.folder / "data/tokens/songs-santext.parquet")
    assert cut.select("dataset", "mechanism").rows() == [("songs", "santext")]
    assert len(cut["tokens"].item()) == 7
    assert set(cut["tokens"].item()) <= {"play", "song", "by", "a"}
    outputs = pl.read_parquet(project.folder / "data/outputs.parquet")
    assert outputs.filter(mechanism="santext")["units"].item() == 7
    assert outputs.filter(mechanism="rr", epsilon=5)["composed"].item() == 5
    # Each text has seven words. `play`, `song` and `by` are in the vocabulary, and in one text also `a`.
    assert outputs.filter(mechanism="santext").select("unknown_words", "cut_texts").row(0) == (79 / 140, None)
    assert outputs.filter(mechanism="rr")["unknown_words"].null_count() == 2
    estimators = pl.read_parquet(project.folder / "data/estimators.parquet")
    assert estimators["trials"].unique().sort().to_list() == [100, 200]
    metrics = [json.loads((project.folder / f"reports/metrics/songs-rr/{at}.json").read_text()) for at in (1, 5)]
    assert metrics[0]["likelihood"] < metrics[1]["likelihood"]
    assert json.loads((project.folder / "data/prepared/songs.json").read_text())["duplicates_merged"] == 1
    assert "Twenty texts" in (project.folder / "reports/audit.html").read_text()


def test_calibrate_and_compare_use_what_the_audit_prepared(project: Project) -> None:
    search = ["epsilometer", "calibrate", "--mechanism", "rr", "--attack", "likelihood", "--width", "1.5", "--json"]
    out = project.run(*search, "--target", "1")
    (answer,) = json.loads(out)
    # Of 20 texts one is kept with probability q = e^eps / (e^eps + 19); the optimal adversary is right with probability
    # q + (1 - q) 9 / 19, and at a loss of 1 that is e / (e + 1): eps = 2.90.
    assert answer["status"] == "found"
    assert answer["low"] < 2.90 < answer["high"] <= 1.5 * answer["low"] * (1 + 1e-9)
    # Counts are stored. The search resumes from a truncated file, and another target needs fewer trials.
    (journal,) = (project.folder / "data/calibrating").glob("rr-songs-*.jsonl")
    whole = journal.read_text()
    journal.write_text(whole[: len(whole) // 2])
    assert project.run(*search, "--target", "1") == out
    assert {*journal.read_text().split("\n")} >= {*whole.split("\n")}
    lines = whole.count("\n")
    project.run(*search, "--target", "1")
    assert journal.read_text().count("\n") <= lines + 1
    rows = json.loads(project.run("epsilometer", "compare", "rr=1", "rr=5", "--json"))
    assert {row["attack"] for row in rows} == {"lexical", "likelihood", "strongest"}
    assert all(row["finding"].startswith("rr=1 leaks less than rr=5") for row in rows)


def test_nothing_changed_nothing_runs(project: Project) -> None:
    assert project.repro() == set()
