"""Checks before DVC begins, and that a repaired dvc.lock written by DVC stays readable."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from dvc.cli import main as dvc
from dvc.repo import Repo

from epsilometer.pipeline.opening import opened
from epsilometer.pipeline.repro import put_in_order
from tests.support.dvc_project import make_project
from tests.support.refusals import refused

BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{b: *a{i - 1}, c: *a{i - 1}}}\n" for i in range(1, 40))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    return tmp_path


@pytest.mark.parametrize("name", ["dvc.yaml", "dvc.lock", "runs/other/params.yaml", "texts.csv.dvc"])
def test_aliases_without_measure_are_refused_before_dvc_begins(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of another run: DVC reads the stages of all folders of a project."""
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(BOMB)
    monkeypatch.setattr(Repo, "__init__", lambda *_, **__: pytest.fail("DVC would not end"))
    with refused("EPS-C075", name, "100000", whole=False):
        opened()


def test_half_a_file_is_left_to_dvc(project: Path) -> None:
    """A dvc.lock whose writer was killed is put aside by whoever opened the project."""
    (project / "dvc.lock").write_text("stages:\n  a: {params: *id")
    opened().close()


def test_settings_that_stages_share_stay_readable_in_order(project: Path) -> None:
    """DVC writes a shared part once and refers to it; sorted and written further, all still means the same."""
    (project / "params.yaml").write_text("one: &one {a: 1, b: {c: [2]}}\ntwo: {<<: *one, d: 3}\nall: [*one, *one]\n")
    stage = "  {}:\n    cmd: echo {} > {}\n    params: [one, two, all]\n    outs: [{}]\n"
    for names in (["z"], ["z", "m"], ["z", "m", "a"]):
        (project / "dvc.yaml").write_text("stages:\n" + "".join(stage.format(*[name] * 4) for name in names))
        assert dvc(["repro", "-q"]) == 0
        put_in_order(project / "dvc.lock")
    first = {"a": 1, "b": {"c": [2]}}
    stages = yaml.safe_load((project / "dvc.lock").read_text())["stages"]
    assert [*stages] == ["a", "m", "z"]
    assert all(
        entry["params"]["params.yaml"] == {"one": first, "two": first | {"d": 3}, "all": [first, first]}
        for entry in stages.values()
    )
    assert "&" in (project / "dvc.lock").read_text(), "otherwise nothing was shared"
