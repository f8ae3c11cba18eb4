"""Numbers from a user are read by the same parser on the command line and in parameter files."""

from __future__ import annotations

import re

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from epsilometer.cells.params import Instrument
from epsilometer.core.guarantees import check_epsilons
from epsilometer.core.values import number
from epsilometer.core.yaml_text import FAST, load
from epsilometer.project.sections import MechanismEntry
from epsilometer.studies.leaderboard.params import LeaderboardMechanism
from tests.support.refusals import refused

REFUSED = ["010", "1:30", "1_000", "1_0.5", "\uff11\uff10", "\u0663", "0x10", "0b11", "", "1e", ".", "on", True, None]


@pytest.mark.parametrize(
    ("written", "value"),
    [("10", 10), (" 0.5 ", 0.5), (".5", 0.5), ("5.", 5), ("1e-5", 1e-5), ("5E+05", 5e5), ("-3", -3), (7, 7),
     (np.float32(0.5), 0.5), ("inf", np.inf)],
)  # fmt: skip
def test_a_number_in_plain_digits_is_read(written: object, value: float) -> None:
    assert number(written) == value


@pytest.mark.parametrize("written", REFUSED)
def test_anything_else_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {written!r}")):
        number(written)
    for section, others in ((MechanismEntry, {"mechanism": "tem"}), (Instrument, {}), (LeaderboardMechanism, {})):
        with pytest.raises(ValidationError) as caught:
            section.model_validate({**others, "epsilons": [written, 1]})
        first = caught.value.errors()[0]
        assert (first["loc"], first["type"]) == (("epsilons", 0), "value_error")
        assert f"got {written!r}" in first["msg"]


@pytest.mark.parametrize("loader", [FAST, yaml.SafeLoader])
@pytest.mark.parametrize("written", ["010", "-010", "1:30", "1_000", "1_0.5", "190:20:30.15", "0b11", "0x1F"])
def test_yaml_reads_no_number_otherwise_than_it_looks(loader: type, written: str) -> None:
    """YAML 1.1 makes 8, 90 and 1000 of the first ones, and their text is gone."""
    assert not isinstance(load(f"a: {written}", loader)["a"], str)
    with refused("EPS-C076", "2"):
        load(f"b: 1\na: [1, {written}]", loader, plain=True)
    assert load(f"a: '{written}'", loader, plain=True) == {"a": written}


def test_yaml_reads_plain_numbers() -> None:
    text = "[1, 0.5, -3, .5, 1e-05, 1.5e+3, 0, .inf, -.INF, 08x, 2026-11-25]"
    assert load(text, plain=True)[:9] == [1, 0.5, -3, 0.5, 1e-05, 1500.0, 0, np.inf, -np.inf]


def test_a_boolean_is_no_epsilon() -> None:
    with refused("EPS-C033", "1"):
        check_epsilons([0.5, True])
