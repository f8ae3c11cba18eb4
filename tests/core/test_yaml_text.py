"""Aliases that expand to billions of values are refused before any code visits them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.core.yaml_text import check_aliases, load
from epsilometer.pipeline.dvc_files import parsed
from epsilometer.pipeline.params import read
from tests.support.refusals import refused

LISTS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 20))
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{k{i}: 1, <<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 20)
)
MAPPINGS = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{b: *a{i - 1}, c: *a{i - 1}}}\n" for i in range(1, 40))
LONG = "a: &a [" + "x, " * 2000 + "x]\nb: [" + ", ".join(["*a"] * 200) + "]\n"
STRING = "a: &a " + "x" * 100_000 + "\nb: [" + ", ".join(["*a"] * 9_000) + "]\n"
BOMBS = {"lists": LISTS, "merges": MERGES, "mappings": MAPPINGS, "one long list": LONG, "one long string": STRING}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_aliases_without_measure_are_refused_at_once(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(bomb)
    for reading in (lambda: read(path), lambda: parsed(bomb.encode()), lambda: check_aliases(bomb)):
        assert calls_until_refused(reading) < 100 * len(bomb)


def calls_until_refused(work: Callable[[], object]) -> int:
    """The number of calls of functions that it takes, once modules are imported."""
    with pytest.raises(UserError):
        work()
    calls = 0

    def count(frame: FrameType, event: str, what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with refused("EPS-C075", "100000", "EPSILOMETER_YAML_NODES", whole=False):
            work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_small_number_is_one_as_dvc_writes_it() -> None:
    assert load("[5e-05, -1E3, 1.5e-05, 2e, e5, 12e8a]") == [5e-05, -1000.0, 1.5e-05, "2e", "e5", "12e8a"]


def test_an_anchor_inside_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("audit: {seed: 1}\ndatasets: &a {b: *a}\n")
    with refused("EPS-C074", "2"):
        read(tmp_path / "params.yaml")


def test_aliases_mean_what_they_meant() -> None:
    text = "a: &a {x: 1, y: [2]}\nb: {<<: *a, x: 3}\nc: [*a, *a]\n"
    assert load(text) == yaml.safe_load(text)
    assert load("") is None


def test_the_measure_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_YAML_NODES", "10")
    with refused("EPS-C075", "10"):
        load("a: &a [1, 2, 3]\nb: [*a, *a, *a, *a]\n")
    assert load("x: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]")["x"][-1] == 11  # a long list without aliases
    monkeypatch.setenv("EPSILOMETER_YAML_NODES", "many")
    with refused("EPS-C046", "0", "many"):
        load("a: &a [1]\nb: [*a]\n")


@pytest.mark.parametrize("levels", [100, 101])
def test_values_are_as_shallow_through_aliases_as_written_out(levels: int) -> None:
    """A list at the top holds a chain of lists, each of which holds an alias of the one before."""
    chain = "".join(f"- &n{i} [{f'*n{i - 1}' if i else 1}]\n" for i in range(levels - 1))
    if levels > 100:
        with refused("EPS-C071"):
            load(chain)
    else:
        assert len(load(chain)) == levels - 1
