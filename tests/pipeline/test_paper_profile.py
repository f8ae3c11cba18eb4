"""The published grid loads, is checked and planned without a network, and lists what it would fetch."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.core.mechanism import build_mechanism
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.shared.triples import Clustering, build
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import read
from epsilometer.pipeline.profiles import copy
from tests.support import tiny_models
from tests.support.dvc_project import compose, make_project
from tests.support.places import ROOT
from tests.support.processes import OUTSIDE
from tests.support.warm import Warm

GRID = (0.1, 0.5, 1, 10, 50, 100, 250, 750, 1000, 2500)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the profile, with a local file of reviews in place of Trustpilot."""
    words = ("good", "bad", "slow", "dear")
    rows = [
        (f"the delivery was {word}, {split} {number}", "FM"[number % 2], rating, split)
        for split in ("train", "test")
        for number in range(4)
        for word, rating in zip(words, (5, 1, 2, 4), strict=True)
    ]
    pl.DataFrame(rows, ["text", "gender", "rating", "split"], orient="row").write_parquet(tmp_path / "reviews.parquet")
    monkeypatch.chdir(ROOT)
    copy(ROOT / "profiles/paper.yaml", tmp_path / "params.yaml")
    params = yaml.safe_load((tmp_path / "params.yaml").read_text())
    params["outside"] = [os.path.relpath(tmp_path, ROOT)]
    params["datasets"]["trustpilot"]["source"] = f"{params['outside'][0]}/reviews.parquet"
    (tmp_path / "glove.txt").write_text("good 0.1 0.2\nbad 0.2 0.1\n")
    params["autoencoders"]["openwebtext"]["vectors"] = f"{params['outside'][0]}/glove.txt"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    compose(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_teda_s_grid() -> None:
    params = read(ROOT / "profiles/paper.yaml")
    assert set(params.datasets) == {"atis", "snips", "sst2", "trustpilot"}
    both = {"dp_bart", "dp_prompt", "dp_paraphrase", "dp_mlm", "dp_st"}
    assert set(params.mechanisms) == {"adept"} | both | {f"{name}_published" for name in both}
    assert all(entry.epsilons == GRID for name, entry in params.mechanisms.items() if "dp_bart" not in name)
    for name in both:
        ours, published = params.mechanisms[name], params.mechanisms[f"{name}_published"]
        assert published.settings["as_published"] is True
        assert Path(published.file or "").stem == name
        assert ours.resource == published.resource
        assert "as_published" not in ours.settings
    assert params.mechanisms["dp_bart"].epsilons == params.mechanisms["dp_bart_published"].epsilons == GRID[3:]
    assert (params.trials.count, params.trials.candidates, params.trials.temperature) == (10_000, 2, -10_000)
    assert len(params.cells) == 4 * 9 + 2  # DP-ST on Trustpilot alone


def test_a_checkpoint_is_a_budget_of_its_own() -> None:
    params = read(ROOT / "profiles/paper_checkpoints.yaml")
    assert len(params.cells) == 4 * 7
    assert [entry.epsilons for entry in params.mechanisms.values()] == [(budget,) for budget in GRID[3:]]
    assert len({entry.resource for entry in params.mechanisms.values()}) == 7
    for cell in params.cells.values():
        assert cell.mechanism == f"dp_bart_{cell.budgets[0]:g}"
        assert cell.resource == f"data/models/{cell.mechanism}"


def test_it_says_what_it_would_fetch(folder: Path) -> None:
    listed = [str(download.repository) for download in check(read("params.yaml"))]
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
        "microsoft/deberta-v3-base@8ccc9b6",
        "Qwen/Qwen3-8B@b968826",
        "sentence-transformers/all-mpnet-base-v2@12e86a3",
    ):
        assert sum(name in repository for repository in listed) == 1, name


def test_dvc_plans_every_stage(folder: Path, warm: Warm) -> None:
    """176 stages. Without --force DVC looks for a stage's inputs in its cache first, and fails where none were made."""
    make_project(folder)
    code, said = warm.run(("dvc", "repro", "--dry", "--force"), folder, OUTSIDE)
    assert code == 0, said
    planned = [line for line in said.splitlines() if line.startswith("Running stage")]
    assert len(planned) == 176
    assert "Running stage 'attack@trustpilot-dp_st':" in planned


SMALL = {
    "data/models/roberta-base": tiny_models.save_roberta,
    "data/models/flan-t5-base": tiny_models.save_t5,
    "data/models/minilm-paraphraser": tiny_models.save_gpt2,
}


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A corpus of triples by an encoder of MPNet's kind, and a writer of Llama's."""
    folder = tmp_path_factory.mktemp("dp_st")
    texts = ["The driver lost my parcel.", "My sister loves the garden.", "The waiter brought cold soup."] * 2
    settings = Clustering([2], dimensions=16, encoder=str(tiny_models.save_mpnet(folder / "mpnet")))
    build(texts, folder / "triples", settings)
    return folder / "triples", tiny_models.save_llama(folder / "llama")


@pytest.mark.parametrize("name", ["dp_prompt", "dp_paraphrase", "dp_mlm", "dp_st"])
@pytest.mark.parametrize("form", ["", "_published"])
def test_both_forms_run_on_small_models_of_their_architecture(
    tmp_path: Path, triples: tuple[Path, Path], name: str, form: str
) -> None:
    """By the profile's own settings, and through the code that loads the published weights."""
    params = read(ROOT / "profiles/paper.yaml")
    entry = params.mechanisms[name + form]
    settings = dict(entry.settings)
    if name == "dp_st":
        resource, settings["writer"] = triples[0], str(triples[1])
        settings |= {"clusters": 2, "prompt": "{}", "longest": min(8, settings.get("longest", 8))}
    else:
        resource, settings["clip"] = SMALL[entry.resource or ""](tmp_path), (-3.0, 3.0)
    mechanism = build_mechanism(str(ROOT / entry.file if entry.file else name), settings, str(resource), "here")
    texts = ["The document of a b", "c d, the driver lost my parcel."]
    budgets = list(entry.epsilons or ())
    noises = [Noise.named(2, "small", epsilon) for epsilon in budgets]
    rewrites = mechanism.rewrite_grid(texts, budgets, noises)
    assert [len(output.texts) for output in rewrites] == [2] * 10
    assert rewrites[0].texts == mechanism.rewrite(texts, budgets[0], noises[0]).texts
    claim = mechanism.guarantee(1.0)
    assert claim is not None
    assert claim.epsilon == 1.0
