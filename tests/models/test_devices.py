"""One choice of a device for all that computes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from epsilometer.attacks.identification.judge import JudgeAttack
from epsilometer.attacks.identification.shared.judge_model import JudgeModel
from epsilometer.core.component import EMBEDDED, build
from epsilometer.core.device import choose
from epsilometer.models import devices
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.models.masked_lm import MaskedLM
from epsilometer.models.tagging import Tagger
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages.code import records
from epsilometer.studies.training.runs.features import Frozen
from tests.support.places import ROOT
from tests.support.refusals import refused

GPU = SimpleNamespace(name="A GPU", major=9, minor=0)


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is chosen; what a test chooses ends with it."""
    monkeypatch.setenv("EPSILOMETER_DEVICE", "cpu")
    monkeypatch.delenv("EPSILOMETER_DEVICE")


def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: GPU)


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_the_processor_is_the_default() -> None:
    assert devices.resolved() == "cpu"
    assert devices.described() == {"kind": "cpu"}


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    choose("auto")
    without_gpu(monkeypatch)
    assert devices.resolved() == "cpu"
    with_gpu(monkeypatch)
    assert devices.resolved() == "cuda"
    assert devices.described() == {"kind": "cuda", "name": "A GPU", "capability": "9.0"}


def test_an_unknown_device_is_refused() -> None:
    with refused("EPS-N023", "tpu"):
        devices.resolved("tpu")


@pytest.mark.parametrize(
    "built",
    [
        lambda: Encoder(ENCODER),
        lambda: Tagger(),
        lambda: JudgeModel(EMBEDDED / "judge"),
        lambda: MaskedLM(ENCODER),
        lambda: Frozen(ENCODER, 16),
    ],
)
def test_all_that_computes_looks_for_the_chosen_device(
    built: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_gpu(monkeypatch)
    choose("cuda")
    with refused("EPS-N024", "cuda", "2.13"):
        built()


def test_check_and_the_first_stage_refuse_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    params = read(ROOT / "profiles/generated.yaml").model_copy(update={"device": "cuda"})
    choose("cuda")
    for work in (check, records):
        with refused("EPS-N024", "cuda"):
            work(params)


def test_a_device_among_a_components_settings_is_refused() -> None:
    with refused("EPS-C013", "device"):
        build(JudgeAttack, {"device": "cuda"}, "attacks.judge")
