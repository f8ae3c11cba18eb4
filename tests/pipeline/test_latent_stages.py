"""The stages that train what ADePT and DP-BART read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.adept import ADePT
from epsilometer.mechanisms.latents.dp_bart import DPBART
from epsilometer.pipeline.stages import build
from epsilometer.runtime import checksums
from tests.support import tiny_models
from tests.support.places import ROOT
from tests.support.refusals import refused


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The default parameters, with a text file of our own to train on, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    lines = {" ".join(random.choice(list("abcdefgh"), 5)) for _ in range(200)}
    (tmp_path / "texts.txt").write_text("\n".join(sorted(lines)))
    own = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    return own | {"root": str(ROOT), "corpus": {"source": str(tmp_path / "texts.txt")}}


def write(settings: dict[str, Any], **entries: Any) -> None:
    corpus = settings.pop("corpus")
    sections = {kind: {"tiny": {"corpus": corpus, **entry}} for kind, entry in entries.items()}
    Path("params.yaml").write_text(yaml.safe_dump(settings | sections))


def test_the_autoencoder_of_a_text_file(settings: dict[str, Any]) -> None:
    small = {"hidden": 8, "dimensions": 8}
    write(settings, autoencoders={"shape": small, "training": {"words": 6, "steps": 5}})
    build.main("autoencoders-tiny")
    record = json.loads(Path("data/autoencoders/tiny/training.json").read_text())
    assert record["vocabulary"] == 6
    assert record["steps"] == 5
    rewrites = ADePT(resource=Path("data/autoencoders/tiny")).rewrite(["a b"], 10.0, Noise.named(1, "x"))
    assert set(rewrites.texts[0].split()) <= set("abcdefgh")


def test_an_autoencoder_of_what_is_audited_says_so(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    settings["corpus"] = {"source": settings["datasets"]["queries"]["source"], "parts": ["queries"], "count": 100}
    write(settings, autoencoders={"shape": {"hidden": 8, "dimensions": 8}, "training": {"steps": 2}})
    build.main("autoencoders-tiny")
    assert "note: queries come from epsilometer/corpora/synthetic.py too" in capsys.readouterr().err


def test_a_model_for_noisy_states(settings: dict[str, Any]) -> None:
    bart = tiny_models.save_bart(Path("bart"))
    (bart / "bounds.json").write_text("{}")  # bounds for the logits of other weights
    checksums.write(bart)
    training = {"variant": "pr", "length": 6, "steps": 2, "batch": 4}
    write(settings, noise_aware={"model": "bart", "training": training})
    build.main("noise_aware-tiny")
    out = Path("data/noise_aware/tiny")
    assert json.loads((out / "training.json").read_text())["dimensions"] == [24]
    assert not (out / "bounds.json").exists()
    checksums.check(out)
    rewrites = DPBART(resource=out, variant="pr", length=6).rewrite(["a b"], 100.0, Noise.named(1, "x"))
    assert rewrites.latents is not None
    assert rewrites.latents.after.shape == (1, 6 * 24)


@pytest.mark.parametrize(
    ("kind", "entry", "refusal"),
    [
        ("autoencoders", {"training": {"step": 5}}, ("EPS-C022", "autoencoders.tiny.training", "steps", "'step'")),
        ("autoencoders", {"shape": {"clip": 0}}, ("EPS-C015", "autoencoders.tiny.shape.clip", "0")),
        ("noise_aware", {"model": "bart", "training": {}}, ("EPS-C014", "noise_aware.tiny.training", "variant")),
        (
            "noise_aware",
            {"model": "bart", "training": {"variant": "pr", "clip": -1}},
            ("EPS-C015", "noise_aware.tiny.training.clip", "0", "-1"),
        ),
        ("noise_aware", {"model": "./none", "training": {"variant": "pr"}}, ("EPS-N052", "./none")),
    ],
)
def test_wrong_settings(settings: dict[str, Any], kind: str, entry: dict, refusal: tuple[str, ...]) -> None:
    write(settings, **{kind: entry})
    with refused(*refusal, whole=False):
        build.main(f"{kind}-tiny")
