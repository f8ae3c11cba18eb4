"""Resource limits: each has a message and an environment variable, and the page lists all of them."""

from __future__ import annotations

import re

import pytest

from epsilometer.core import resource_limits
from epsilometer.core.resource_limits import Limit
from tests.support.places import ROOT
from tests.support.refusals import refused

LIMITS = [value for value in vars(resource_limits).values() if isinstance(value, Limit)]


def test_the_page_lists_every_bound_with_its_default() -> None:
    page = (ROOT / "docs/concepts/reliability.md").read_text()
    listed: dict[str, str] = {}
    for names, values in re.findall(r"^\| (`EPSILOMETER_[^|]*) \| ([\d, ]+) \|", page, re.MULTILINE):
        listed |= dict(zip(re.findall(r"\w+", names), values.split(", "), strict=True))
    assert listed == {limit.variable: str(limit.default) for limit in LIMITS}


@pytest.mark.parametrize("text", ["0", "-1", "1e9", "", "many", "9" * 5000, "\u0663"])
def test_a_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("EPSILOMETER_YAML_NODES", text)
    with refused("EPS-C046", "0"):
        _ = resource_limits.YAML_NODES.value
    monkeypatch.setenv("EPSILOMETER_YAML_NODES", "7")
    assert resource_limits.YAML_NODES.value == 7
    assert "raise EPSILOMETER_YAML_NODES (now 7)" in resource_limits.YAML_NODES.remedy
