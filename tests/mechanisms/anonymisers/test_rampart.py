"""Rampart, a network in a package: a tiny one with known labels, and the published one if it is installed."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers import rampart
from epsilometer.mechanisms.anonymisers.rampart import Rampart
from epsilometer.mechanisms.anonymisers.shared.pins import RAMPART
from epsilometer.runtime import packages
from tests.support import tiny_onnx
from tests.support.refusals import refused
from tests.support.wheels import only_folder, pin, write_pin, write_wheel

LABELS = {"ann": "B-GIVEN_NAME", "mary": "I-GIVEN_NAME", "lee": "B-SURNAME", "5": "B-PHONE"}
POSITIONS = 64
needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime")


def written(masker: Rampart, *texts: str) -> list[str]:
    return list(masker.rewrite(texts, np.nan, Noise.named(len(texts), 0)).texts)


@pytest.fixture
def resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pin of the tiny network, whose wheel pip finds."""
    only_folder(monkeypatch, tmp_path)
    sha256 = write_wheel(tmp_path, tiny_onnx.files(LABELS, POSITIONS))
    return write_pin(tmp_path / "tiny.json", pin(sha256, file=f"{tiny_onnx.FOLDER}/config.json"))


@needs_onnx
def test_labelled_words_are_replaced(resource: Path) -> None:
    masker = Rampart(resource=resource)
    texts = ["Ann Mary Lee called 5.", "Ann Ann, Mary", "nobody", "", "  \n"]
    assert written(masker, *texts) == [
        "<GIVEN_NAME> <SURNAME> called <PHONE>.",
        "<GIVEN_NAME> <GIVEN_NAME>, <GIVEN_NAME>",
        *texts[2:],
    ]
    outcomes = masker.rewrite(texts, np.nan, Noise.named(5, 0)).outcomes
    assert outcomes is not None
    assert list(outcomes.status) == [FOUND, FOUND, NOTHING, NOTHING, NOTHING]
    assert [check.rule for check in check_mechanism(masker, None, ["Ann Lee", "no name"]) if check.problem] == []


@needs_onnx
def test_kinds_and_expressions(resource: Path) -> None:
    text = "Lee: 5, a@example.com, 4111 1111 1111 1111, 536-90-4399, 10.1.2.3, 2024-05-06"
    assert written(Rampart(resource=resource, kinds=["surname"]), text) == [text.replace("Lee", "<SURNAME>")]
    (every,) = written(Rampart(resource=resource, expressions=True), text)
    numbers = "<EMAIL_ADDRESS>, <CARD_NUMBER>, <SOCIAL_SECURITY_NUMBER>, <IP_ADDRESS>, <DATE>"
    assert every == f"<SURNAME>: <PHONE>, {numbers}"
    some = Rampart(resource=resource, expressions=True, kinds=["phone", "date"])
    assert written(some, text) == [text.replace("5,", "<PHONE>,", 1).replace("2024-05-06", "<DATE>")]


@needs_onnx
def test_a_long_text_is_read_to_its_end(resource: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where windows meet, and where 480 characters are more tokens than the network has positions."""
    sizes = []
    labelled = rampart._Network._labelled

    def counted(network: rampart._Network, ids: Sequence[int]) -> list[str]:
        sizes.append(len(ids) + 2)
        return labelled(network, ids)

    monkeypatch.setattr(rampart._Network, "_labelled", counted)
    masker = Rampart(resource=resource)
    for filler, place in itertools.product(("word " * 400, ". " * 1000), (0, 120, 410, 440, 476, 478, 480, 900, 1990)):
        cut = place - place % (5 if "w" in filler else 2)
        text = f"{filler[:cut]}Ann Mary {filler[cut:]}"
        assert written(masker, text) == [text.replace("Ann Mary", "<GIVEN_NAME>")], (filler[:5], place)
    assert max(sizes) == POSITIONS


def test_windows_cover_a_text_and_overlap() -> None:
    for length, (window, shared) in itertools.product(
        (0, 1, 63, 64, 65, 416, 417, 480, 481, 5000), ((480, 64), (62, 31))
    ):
        windows = [range(start, min(start + window, length)) for start in rampart._starts(length, window, shared)]
        assert {i for of_window in windows for i in of_window} == set(range(length))
        assert all(before.stop - after.start == shared for before, after in itertools.pairwise(windows))
        assert sum(of_window.stop == length for of_window in windows) == bool(length), "no window is read for nothing"


@pytest.mark.parametrize("kinds", [["shoe size"], ["date"], []])
def test_unknown_kinds_are_refused(kinds: list[str]) -> None:
    with refused("EPS-C015", *kinds):
        mechanism("rampart", {"kinds": kinds})
    if kinds == ["date"]:
        mechanism("rampart", {"kinds": kinds, "expressions": True})


def test_without_onnxruntime_nothing_is_downloaded(resource: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    with refused("EPS-M117", "epsilometer[onnx]"):
        written(Rampart(resource=resource), "Ann")
    assert not [*resource.parent.glob("cache/**/config.json")]


@needs_onnx
def test_another_hash_and_no_network_are_named(resource: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = write_pin(tmp_path / "other.json", pin("0" * 64, file=f"{tiny_onnx.FOLDER}/config.json"))
    with refused("EPS-C098", "small-talk", "0" * 64):
        written(Rampart(resource=other), "Ann")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nothing listens at this port
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with refused("EPS-C094", "small-talk"):
        written(Rampart(resource=resource), "Ann")


def test_another_resource_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "model.onnx", write_pin(tmp_path / "other.json", pin("0" * 64))):
        with refused("EPS-M116", str(path)):
            _ = Rampart(resource=path).pins


@needs_onnx
@pytest.mark.skipif(packages.content(RAMPART) is None, reason="needs the package of the published network")
def test_the_published_network_finds_names_in_any_case() -> None:
    text = "Then søren müller and ANNA SMITH called (415) 555-0132 about 12 Main Street, Springfield."
    (rewrite,) = written(Rampart(), text)
    assert not [part for part in ("søren", "müller", "ANNA", "SMITH", "415", "0132", "Main", "12") if part in rewrite]
    assert rewrite.startswith("Then <GIVEN_NAME> <SURNAME> and <GIVEN_NAME> <SURNAME> called <PHONE> about ")
    filler = "we went there again and it was as good as before. " * 30
    (long,) = written(Rampart(), filler + text)
    assert long.startswith(filler + "Then <GIVEN_NAME> <SURNAME> and <GIVEN_NAME> <SURNAME> called <PHONE> about ")
