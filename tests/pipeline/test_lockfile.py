"""dvc.lock, written a stage at a time, has the bytes that DVC gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dvc.dvcfile
import pytest
import yaml
from dvc.utils.serialize import modify_yaml

from epsilometer.pipeline.lockfile import modified, quick
from tests.support.places import ROOT

OUT = {"path": "data/a", "hash": "md5", "md5": "1" * 32, "size": 3}
LONG = {"audit.alpha": None, "notes": ["word " * 60, "ε: 'one' #2"]}
CHANGES = [
    {"rewrite@queries-new": {"cmd": "epsilometer stage rewrite queries-new", "outs": [OUT]}},
    {"report": {"cmd": "other", "params": {"params.yaml": LONG}}},
    {"code": {"cmd": "epsilometer", "outs": [OUT | {"md5": "0123456789" * 3 + "e1"}]}, "lists": {"cmd": "x"}},
]


def changed(write: Any, path: Path, change: dict[str, Any]) -> bytes:
    with write(str(path)) as content:
        content["stages"].update(change)
    return path.read_bytes()


@pytest.mark.parametrize("change", CHANGES, ids=["new", "changed", "two"])
def test_the_bytes_are_those_of_dvc(tmp_path: Path, change: dict[str, Any]) -> None:
    places = [tmp_path / name / "dvc.lock" for name in ("ours", "dvc")]
    for place in places:
        place.parent.mkdir()
        place.write_bytes((ROOT / "dvc.lock").read_bytes())
    assert changed(modified, places[0], change) == changed(modify_yaml, places[1], change)


def test_a_stage_that_is_taken_out_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "dvc.lock"
    place.write_bytes((ROOT / "dvc.lock").read_bytes())
    with modified(str(place)) as content:
        del content["stages"]["lists"]
        rest = list(content["stages"])
    assert list(yaml.safe_load(place.read_text())["stages"]) == rest


def test_what_has_not_changed_is_not_written(tmp_path: Path) -> None:
    place = tmp_path / "dvc.lock"
    place.write_bytes((ROOT / "dvc.lock").read_bytes())
    before = place.stat()
    stage = yaml.safe_load(place.read_text())["stages"]["code"]
    changed(modified, place, {"code": stage})
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("write", [modified, modify_yaml], ids=["ours", "DVC's"])
def test_settings_that_params_share_are_written_out_and_stay_readable(tmp_path: Path, write: Any) -> None:
    """Two stages of `attacks: &a`: names for shared parts, written a stage at a time, would stand twice in the file."""
    attacks = {"rmia": {}, "lira": {}}
    shared = {"one": {"attacks": attacks}, "two": {"attacks": attacks}, "all": [[attacks], [attacks]]}
    bodies = {name: {"cmd": name, "params": {"params.yaml": shared}} for name in ("code", "report", "again")}
    place = tmp_path / "dvc.lock"
    place.write_text("schema: '2.0'\nstages:\n  first:\n    cmd: x\n")
    changed(write, place, {"code": bodies["code"]})
    for name in ("report", "again"):
        changed(modified, place, {name: bodies[name]})
    stages = yaml.safe_load(place.read_text())["stages"]
    assert stages == {"first": {"cmd": "x"}, **bodies}
    assert "&id" not in place.read_text()


@pytest.mark.parametrize("name", ["dvc.lock", "dvc.yaml"])
def test_other_files_are_left_to_dvc(tmp_path: Path, name: str) -> None:
    """One of another form, or whose comments must stay."""
    place = tmp_path / name
    place.write_text("# a comment\nstages:\n  # another\n  one:\n    cmd: x\nvars: []\n")
    assert changed(modified, place, {"two": {"cmd": "y"}}).startswith(b"# a comment")


def test_dvc_calls_it() -> None:
    """`quick` replaces a name of DVC's: this fails if an update of DVC no longer has it."""
    assert dvc.dvcfile.modify_yaml is modify_yaml
    with quick():
        assert dvc.dvcfile.modify_yaml is modified
    assert dvc.dvcfile.modify_yaml is modify_yaml
    assert "modify_yaml" in dvc.dvcfile.Lockfile.dump_stages.__code__.co_names
