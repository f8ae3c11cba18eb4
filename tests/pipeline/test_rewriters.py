"""The stage that trains the rewriter of adversarial back-translation, in a toy project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.adversarial_back_translation import AdversarialBackTranslation
from epsilometer.mechanisms.anonymisers.shared import adversarial_rewriter
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import prepare
from epsilometer.runtime import checksums, resuming
from epsilometer.studies.anonymity.parts import AUXILIARIES, parted
from epsilometer.studies.anonymity.stages import rewriters
from tests.support import tiny_models
from tests.support.places import ROOT
from tests.support.refusals import refused

ENTRY = {
    "dataset": "songs",
    "attribute": "singer",
    "count": 50,
    "model": "data/models/bart",
    "round_trip": {"mechanism": "round_trip", "resource": "data/models/bart", "settings": {"longest": 12}},
    "training": {"adversary_epochs": 1, "rewriter_epochs": 1, "joint_epochs": 1, "batch": 8, "length": 12},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of a project with one data set, whose texts are prepared, and one model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adversarial_rewriter, "LEAST_DISTINCT", 0)  # the tiny model writes few texts
    random = np.random.default_rng(0)
    texts = sorted({" ".join(random.choice(list("abcdefgh"), 6)) for _ in range(160)})
    table = {"text": texts, "singer": ["F", "M"] * (len(texts) // 2), "split": ["train", "train", "train", "test"] * 40}
    pl.DataFrame({name: column[:156] for name, column in table.items()}).write_csv("songs.csv")
    tiny_models.save_bart(Path("data/models/bart"))
    settings = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    songs = {"source": str(tmp_path / "songs.csv"), "labels": ["singer"], "public": True}
    settings["datasets"]["songs"] = songs
    settings["auxiliaries"] = {"songs": {"dataset": "songs", "attributes": ["singer"], "vectors": "minilm"}}
    return settings | {"root": str(ROOT)}


def write(settings: dict[str, Any], **changes: Any) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(settings | {"rewriters": {"songs": ENTRY | changes}}))


def test_a_rewriter_of_the_texts_of_auxiliaries(project: dict[str, Any]) -> None:
    write(project)
    prepare.main("songs")
    rewriters.main("songs")
    out = Path("data/rewriters/songs")
    record = json.loads((out / "rewriter.json").read_text())
    assert len(record["distinct"]) == len(record["adversary"]) == 2
    table = parted(read(), "songs")
    seen = table.filter(pl.col("split") == AUXILIARIES)["id"].head(50)
    assert json.loads((out / "about.json").read_text())["texts"] == sorted(seen)
    assert record["texts"] == 40  # a fifth is held out
    assert not any(Path("data/begun").iterdir())
    checksums.check(out)
    rewrites = AdversarialBackTranslation(resource=out).rewrite(["a b. c"], NO_BUDGET, Noise.named(1, "x"))
    assert len(rewrites.texts) == 1


def test_a_stage_that_was_killed_makes_no_round_trip_again_and_ends_with_the_same_bytes(
    project: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project)
    prepare.main("songs")
    rewriters.main("songs")
    out = Path("data/rewriters/songs")
    files = sorted(path for path in out.iterdir())
    whole = {path: path.read_bytes() for path in files}
    epoch = adversarial_rewriter._Training._epoch

    def killed(training: Any, number: int, adversary: bool, rewriter: bool) -> None:
        if number == 2:
            raise KeyboardInterrupt
        epoch(training, number, adversary, rewriter)

    with resuming.running("rewriters", "songs", lambda: "same"):
        with monkeypatch.context() as patched:
            patched.setattr(adversarial_rewriter._Training, "_epoch", killed)
            with pytest.raises(KeyboardInterrupt):
                rewriters.main("songs")
        built: list[str] = []
        build = rewriters.cells.build
        monkeypatch.setattr(rewriters.cells, "build", lambda *cell: built.append("mechanism") or build(*cell))
        rewriters.main("songs")
    assert built == ["mechanism"]  # built to check its settings, not for a round trip
    assert {path: path.read_bytes() for path in sorted(out.iterdir())} == whole


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"attribute": "mood"}, ("EPS-P060", "rewriters.songs.attribute", "mood")),
        ({"dataset": "song"}, ("EPS-P060", "rewriters.songs.dataset", "'song'")),
        (
            {"dataset": "queries", "attribute": "intent"},
            ("EPS-P060", "rewriters.songs", "queries"),
        ),
        ({"model": "elsewhere"}, ("EPS-P060", "rewriters.songs.model", "data/models/NAME", "elsewhere")),
        ({"round_trip": {"mechanism": "round_trips"}}, ("EPS-P060", "rewriters.songs.round_trip", "round_trips")),
        ({"training": {"epochs": 1}}, ("EPS-C022", "rewriters.songs.training", "epochs")),
        (
            {"training": {"rewriter_epochs": 0, "joint_epochs": 0}},
            ("EPS-C015", "rewriters.songs.training", "rewriter_epochs", "joint_epochs"),
        ),
    ],
)
def test_wrong_settings(project: dict[str, Any], changes: dict[str, Any], refusal: tuple[str, ...]) -> None:
    write(project, **changes)
    with refused(*refusal):
        rewriters.main("songs")
