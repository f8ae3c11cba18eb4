from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epsilometer import cli
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.dp_mlm import DPMLM
from epsilometer.mechanisms.tokens.dp_paraphrase import DPParaphrase
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt
from epsilometer.models import bounds as module
from epsilometer.models.bounds import PUBLISHED_BOUNDS, bounds, destination, measure, store
from epsilometer.models.locate import REVISIONS, locate, read_pin
from tests.support import tiny_models
from tests.support.places import ROOT
from tests.support.refusals import refused

FLAN = "google/flan-t5-base"
TEXTS = ["a b c", "d e f g h", "h a"]


def measured_by_command(*arguments: object) -> int:
    """Exit code of `epsilometer bounds`."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["bounds", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_published_bounds_belong_to_pinned_revisions() -> None:
    assert PUBLISHED_BOUNDS.keys() <= REVISIONS.keys()
    assert all(len(revision) == 40 for revision in REVISIONS.values())
    for name, sensitivity in ((FLAN, 26.7103), ("google/flan-t5-large", 26.4979), ("google/flan-t5-xl", 28.1516)):
        low, high = bounds(name)
        assert high - low == pytest.approx(sensitivity, abs=1e-4)
        assert bounds(f"{name}@{REVISIONS[name]}") == (low, high)
        with refused("EPS-N007", f"epsilometer bounds {name}@main\n"):
            bounds(f"{name}@main")


def test_measure() -> None:
    """Against numpy on all logits at once, whatever the parts."""
    logits = np.random.default_rng(0).normal(-7.0, 3.0, (500, 40)).astype(np.float32)
    result = measure([logits[:7], logits[7:7], logits[7:300], logits[300:]], "noise")
    assert result["low"] == pytest.approx(logits.mean(dtype=float), abs=1e-4)
    assert result["high"] == pytest.approx(np.quantile(logits.max(1), 0.9), abs=1e-4)
    assert result["mean + 4 standard deviations"] == pytest.approx(logits.mean() + 4 * logits.std(), abs=1e-3)
    assert result["positions"] == 500
    assert result["quantiles"]["smallest logit"]["0.5"] == pytest.approx(np.median(logits.min(1)), abs=1e-4)
    with refused("EPS-N008"):
        measure([], "nothing")
    with refused("EPS-N009"):
        measure([np.full((3, 4), np.nan, np.float32)], "broken")
    with refused("EPS-N009"):
        measure([np.zeros((3, 4), np.float32)], "flat")


def test_command_on_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tiny_models.save_t5(tmp_path / "t5")
    texts = tmp_path / "public.txt"
    texts.write_text("\n".join(TEXTS))
    with refused("EPS-N007", f"epsilometer bounds {folder}"):
        DPPrompt(resource=folder).rewrite(["a"], 1.0, Noise.named(1, "x"))
    assert measured_by_command(folder, "--text", texts, "--json") == 0
    (said,) = json.loads(capsys.readouterr().out)
    stated = json.loads((folder / "bounds.json").read_text())
    assert said["kept in"] == str(folder / "bounds.json")
    assert bounds(folder) == (stated["low"], stated["high"]) == (said["low"], said["high"])
    assert stated["measured_on"] == "3 texts of public.txt, prompts of dp_prompt"
    assert stated["positions"] == 13  # ten words, and three ends
    logits = np.concatenate(list(DPPrompt(resource=folder, clip=(0, 1)).logits(TEXTS)))
    assert stated["low"] == pytest.approx(logits.mean(), abs=1e-3)
    DPPrompt(resource=folder).rewrite(["a"], 1.0, Noise.named(1, "x"))
    assert measured_by_command(folder, "--text", texts) == 2
    assert "already exists; set --replace" in capsys.readouterr().err
    assert measured_by_command(folder, "--text", texts, "--replace") == 0
    # Other weights under the same name are another model.
    tiny_models.save_bart(folder)
    with refused("EPS-N006"):
        bounds(folder)


def test_the_prompts_are_those_of_the_mechanism(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    texts = tmp_path / "public.txt"
    texts.write_text("\n".join(TEXTS))
    for save, name in ((tiny_models.save_gpt2, "dp_paraphrase"), (tiny_models.save_qwen, "dp_prompt")):
        folder = save(tmp_path / name)
        assert measured_by_command(folder, "--text", texts) == 0
        stated = json.loads((folder / "bounds.json").read_text())
        assert stated["measured_on"].endswith(f"prompts of {name}")
        mechanism = {"dp_paraphrase": DPParaphrase, "dp_prompt": DPPrompt}[name](resource=folder)
        (whole,) = [np.concatenate(list(mechanism.logits(TEXTS)))]
        assert stated["high"] == pytest.approx(np.quantile(whole.max(1), 0.9), abs=1e-3)
    for arguments, message in (
        ([str(folder), "--mechanism", "identity", "--replace"], "identity does not clip logits"),
        (["./nowhere"], "nowhere"),
        ([str(folder), "--out", "x.json", "--replace"], "--out is only for hub models"),
    ):
        assert measured_by_command(*arguments) == 2
        assert message in capsys.readouterr().err


def test_masked_models_are_measured_at_every_word() -> None:
    from epsilometer.models.embedded import masked_lm

    texts = ["show me a flight", "rude staff"]
    parts = list(DPMLM(resource=masked_lm()).logits(texts))
    assert [len(part) for part in parts] == [4, 2]


def test_a_pin_of_the_hub_keeps_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tiny_models.save_t5(tmp_path / commit)
    monkeypatch.setattr("epsilometer.models.locate._download", lambda name: snapshot)
    monkeypatch.chdir(tmp_path)
    measured = {"low": -1.0, "high": 2.0, "measured_on": "x"}
    path = store("someone/small-t5", measured)
    assert path == Path("small-t5.json")
    assert read_pin(path) == {"model": "someone/small-t5", "revision": commit, **measured}
    assert bounds(path) == (-1.0, 2.0)
    assert locate(path) == snapshot
    with refused("EPS-N011"):
        destination("someone/small-t5")
    with refused("EPS-N007"):
        bounds("someone/small-t5")  # the bounds belong to the pin, not to the name
    mechanism = DPPrompt(resource="small-t5.json", max_new_tokens=2)
    assert (mechanism.law.low, mechanism.law.high) == (-1.0, 2.0)
    bare = Path("bare.json")
    bare.write_text(json.dumps({"model": "someone/small-t5", "revision": commit}))
    with refused("EPS-N007"):
        bounds(bare)
    assert store(bare, measured) == bare  # bounds are added to the pin that is given
    assert bounds(bare) == (-1.0, 2.0)
    with refused("EPS-N011"):
        store(bare, measured)
    store(bare, {**measured, "low": -3.0}, replace=True)
    assert bounds(bare) == (-3.0, 2.0)


@pytest.mark.parametrize(
    ("stated", "refusal"),
    [
        ({"low": 1}, ("EPS-N012",)),
        ({"low": 2, "high": 2}, ("EPS-N013", "2.0 and 2.0")),
        ({"low": "x", "high": 1}, ("EPS-N012",)),
        ({"low": 0, "high": 1e999}, ("EPS-N013", "0.0 and inf")),
    ],
)
def test_malformed_bounds(tmp_path: Path, stated: dict, refusal: tuple[str, ...]) -> None:
    (tmp_path / "bounds.json").write_text(json.dumps(stated))
    with refused(*refusal, "low", "high"):
        bounds(tmp_path)


def test_a_malformed_pin(tmp_path: Path) -> None:
    path = tmp_path / "pin.json"
    for text in ("{", "[]", '{"model": "x"}', '{"model": "x", "revision": 3}'):
        path.write_text(text)
        with refused("EPS-N046"):
            bounds(path)


def test_embedded_bounds_were_measured_as_the_command_does() -> None:
    folder = ROOT / "data" / "embedded" / "models" / "minilm-seq2seq"
    stated = json.loads((folder / "bounds.json").read_text())
    assert stated["rule"] == module.RULE
    assert stated["low"] < 0 < stated["quantiles"]["largest logit"]["0.5"] < stated["high"]
    assert stated["high"] == pytest.approx(stated["quantiles"]["largest logit"]["0.9"], abs=1e-3)
