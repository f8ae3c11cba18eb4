"""The published grid loads, is checked and is planned without a network, and says what it would fetch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.project.checking import check
from epsilometer.project.params import read
from epsilometer.project.profiles import copy
from tests.support.places import ROOT

GRID = (0.1, 0.5, 1, 10, 50, 100, 250, 750, 1000, 2500)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the profile, with a local file of reviews in place of Trustpilot."""
    texts = [f"the delivery was {word} and late" for word in ("good", "bad", "slow", "dear")]
    pl.DataFrame({"text": texts, "gender": ["F", "M"] * 2, "split": "train"}).write_parquet(
        tmp_path / "reviews.parquet"
    )
    monkeypatch.chdir(ROOT)
    copy(ROOT / "profiles/paper.yaml", tmp_path / "params.yaml")
    params = yaml.safe_load((tmp_path / "params.yaml").read_text())
    params["outside"] = [os.path.relpath(tmp_path, ROOT)]
    params["datasets"]["trustpilot"]["source"] = f"{params['outside'][0]}/reviews.parquet"
    (tmp_path / "glove.txt").write_text("good 0.1 0.2\nbad 0.2 0.1\n")
    params["autoencoders"]["openwebtext"]["vectors"] = f"{params['outside'][0]}/glove.txt"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_teda_s_grid() -> None:
    params = read(ROOT / "profiles/paper.yaml")
    assert set(params.datasets) == {"atis", "snips", "sst2", "trustpilot"}
    both = {"dp_prompt", "dp_paraphrase", "dp_mlm", "dp_st"}
    assert set(params.mechanisms) == {"adept", "dp_bart"} | both | {f"{name}_published" for name in both}
    assert all(entry.epsilons == GRID for name, entry in params.mechanisms.items() if name != "dp_bart")
    for name in both:
        ours, published = params.mechanisms[name], params.mechanisms[f"{name}_published"]
        assert published.settings["as_published"] is True
        assert Path(published.file or "").stem == name
        assert ours.resource == published.resource
        assert "as_published" not in ours.settings
    assert params.mechanisms["dp_bart"].epsilons == GRID[3:]
    assert (params.trials.count, params.trials.candidates, params.trials.temperature) == (10_000, 2, -10_000)
    assert len(params.cells) == 4 * 8 + 2  # DP-ST on Trustpilot alone


def test_a_checkpoint_is_a_budget_of_its_own() -> None:
    params = read(ROOT / "profiles/paper_checkpoints.yaml")
    assert len(params.cells) == 4 * 7
    assert [entry.epsilons for entry in params.mechanisms.values()] == [(budget,) for budget in GRID[3:]]
    assert len({entry.resource for entry in params.mechanisms.values()}) == 7
    for cell in params.cells.values():
        assert cell.mechanism == f"dp_bart_{cell.budgets[0]:g}"
        assert cell.resource == f"data/models/{cell.mechanism}"


def test_it_says_what_it_would_fetch(folder: Path) -> None:
    listed = [str(one.repository) for one in check(read("params.yaml"))]
    for name in (
        "DeepPavlov/atis_intent_classification@01f3bc1",
        "DeepPavlov/snips@45f42eb",
        "stanfordnlp/sst2@8d51e7e",
        "Skylion007/openwebtext@b4325f0",
        "HuggingFaceFW/fineweb@9bb295d",
        "meta-llama/Llama-3.2-1B-Instruct@9213176",
        "roberta-base@e2da8e2",
        "google/flan-t5-base@7bcac57",
        "facebook/bart-base@aadd2ab",
        "Qwen/Qwen3-8B@b968826",
        "sentence-transformers/all-mpnet-base-v2@12e86a3",
    ):
        assert sum(name in one for one in listed) == 1, name


def test_dvc_plans_every_stage(folder: Path) -> None:
    """99 stages. Without --force DVC looks for a stage's inputs in its cache first, and fails where none were made."""
    environment = os.environ | {"DVC_NO_ANALYTICS": "1", "PYTHONPATH": str(ROOT)}
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=folder, env=environment, check=True)
    plan = [sys.executable, "-m", "dvc", "repro", "--dry", "--force"]
    done = subprocess.run(plan, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    planned = [line for line in done.stdout.splitlines() if line.startswith("Running stage")]
    assert len(planned) == 99  # budgets and training_curves have no entries, and run all the same
    assert "Running stage 'attack@trustpilot-dp_st':" in planned
