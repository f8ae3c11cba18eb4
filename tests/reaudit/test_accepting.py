"""Audits can be accepted if all of their stages are up to date, according to DVC's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.core import atomic
from epsilometer.pipeline import composing, current, dvc_files, params
from epsilometer.pipeline.measured import accept, measured_in
from epsilometer.pipeline.stages import code, resources
from epsilometer.project import code as records_of_code
from epsilometer.reaudit import baseline
from tests.support.refusals import refused
from tests.support.small_audit import audited, leaks


def record() -> None:
    """Write dvc.yaml, and into dvc.lock what DVC would record of the stages that an audit's figures come from."""
    read = params.read()
    composing.write(read)
    code.main()
    resources.main()
    settings, lock = dvc_files.settings(), {}
    for stage in current.leading_to(["estimate"]):
        deps, keys = dvc_files.listed(stage, settings)
        lock[stage] = {
            "deps": [{"path": path, "md5": dvc_files.digest(path)} for path in deps],
            "params": {"params.yaml": {key: dvc_files.lookup(settings, key) for key in keys}},
            "outs": [
                {"path": path, "md5": dvc_files.digest(path)}
                for path in dvc_files.outs(stage, settings)
                if Path(path).exists()
            ],
        }
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": lock}))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited(tmp_path_factory.mktemp("accepting") / "project", 0.5)


@pytest.fixture
def project(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The finished audit, in the current folder; edits are undone."""
    monkeypatch.chdir(finished)
    Path("data/embedded/models").mkdir(parents=True, exist_ok=True)
    Path("data/own.txt").write_text("one")
    Path("data/vectors").mkdir(exist_ok=True)
    Path("data/vectors/own.npz").write_bytes(b"made of songs.txt")
    edit("file: same.py}", "file: same.py, resource: data/own.txt}")
    record()
    before = {path: path.read_bytes() for path in finished.iterdir() if path.is_file()}
    yield finished
    for path, content in before.items():
        path.write_bytes(content)
    edit(", resource: data/own.txt}", "}")
    records_of_code._hash.cache_clear()


def edit(old: str, new: str) -> None:
    path = Path("params.yaml")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_an_audit_that_is_up_to_date_is_accepted(project: Path) -> None:
    accept(params.read())
    assert baseline.read().measured.keys() == measured_in(project).keys()


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("seed: 0", "seed: 0, alpha: 0.02", ("EPS-P017", "dvc.yaml", "estimate")),
        ("seed: 0", "seed: 7", ("EPS-P019", "audit.seed: 0", "7")),
        ("temperature: 0", "temperature: -9", ("EPS-P019", "trials@songs", "trials.temperature: 0", "-9")),
        ("use: train", "use: test", ("EPS-P019", 'datasets.songs.use: "train"')),
        (
            "file: mine.py",
            "file: mine.py, settings: {share: 1}",
            ("EPS-P019", "rewrite@songs-mine", "cells.songs-mine"),
        ),
        ("{lexical: {}}", "{lexical: {}, length: {}}", ("EPS-P019", "attack@songs-mine", "attacks.length")),
    ],
)
def test_settings_of_another_audit(project: Path, old: str, new: str, refusal: tuple[str, ...]) -> None:
    edit(old, new)
    with refused(*refusal):
        accept(params.read())
    if refusal[0] == "EPS-P019":
        with refused(*refusal):
            measured_in(project)


def test_code_and_what_mechanisms_read(project: Path) -> None:
    """An edit of either counts at once, before a stage has recorded it; `diff` compares two versions of the code."""
    leaks(project, "mine", 0.75)
    records_of_code._hash.cache_clear()
    with refused("EPS-P019"):
        accept(params.read())
    assert measured_in(project)
    leaks(project, "mine", 0.5)
    records_of_code._hash.cache_clear()
    Path("data/own.txt").write_text("other")
    with refused("EPS-P019"):
        accept(params.read())


def test_results_that_are_not_those_of_their_stage(project: Path) -> None:
    content = Path("data/estimates.parquet").read_bytes()
    Path("data/estimates.parquet").write_bytes(content + b" ")
    with refused("EPS-P019"):
        accept(params.read())
    Path("data/estimates.parquet").write_bytes(content)


def test_the_hash_of_a_record_is_that_of_its_file(tmp_path: Path) -> None:
    what = {"files": {"ä.py": "1"}, "packages": {}}
    atomic.write_json(what, tmp_path / "record.json")
    assert dvc_files.digest_of_record(what) == dvc_files.digest(str(tmp_path / "record.json"))
