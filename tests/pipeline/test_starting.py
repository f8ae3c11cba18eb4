"""A user's project outside the repository: written files, refusals, and that it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.core.component import EMBEDDED
from epsilometer.pipeline import checking, params, starting
from epsilometer.pipeline.composing import compose
from epsilometer.pipeline.starting import renew, start
from tests.support.commands import call
from tests.support.processes import OUTSIDE
from tests.support.refusals import refused

UPPER = "from loudly import shout\n\ndef rewrite(text, rng):\n    return shout(text)\n"


def said(folder: Path, *command: str) -> str:
    """What a command says in a folder; fails where it fails."""
    done = subprocess.run(command, cwd=folder, env=OUTSIDE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def texts(folder: Path) -> Path:
    file = folder / "mail.csv"
    rows = {"body": [f"letter {i} to {chr(97 + i % 26)} of {i % 7} lines" for i in range(300)], "year": [2020] * 300}
    pl.DataFrame(rows).write_csv(file)
    return file


def test_a_project_is_valid_and_ready_to_be_committed(tmp_path) -> None:
    folder = tmp_path / "mine"
    said(tmp_path, "epsilometer", "init", "mine", "--texts", str(texts(tmp_path)), "--text", "body")
    staged = set(said(folder, "git", "diff", "--cached", "--name-only").split())
    assert {"params.yaml", "dvc.yaml", "Makefile", "mechanisms/mine.py", "attacks/outline.py", ".gitignore"} <= staged
    assert not [name for name in staged if name.startswith("data/")], "private texts are not for git"
    assert "is valid" in said(folder, "epsilometer", "check", "params")
    assert "rewrite@mine-tem" in said(folder, "dvc", "stage", "list", "--name-only"), "DVC finds all that it looks up"
    assert (folder / "dvc.yaml").read_text() == compose(params.read(folder / "params.yaml"))
    assert (folder / "data/embedded/models").resolve() == EMBEDDED.resolve()
    written = params.read(folder / "params.yaml")
    assert [*written.cells] == ["mine-identity", "mine-tem"]
    assert not written.datasets["mine"].public
    assert pl.read_csv(folder / written.datasets["mine"].source).equals(pl.read_csv(tmp_path / "mail.csv"))


@pytest.mark.parametrize("mechanism", ["identity", "diffractor", "dp_mlm", "dp_prompt", "randomized_response", "mvc"])
def test_entries_of_shipped_mechanisms_can_be_built(tmp_path, monkeypatch, mechanism) -> None:
    folder = tmp_path / "mine"
    monkeypatch.setattr(starting, "_set_up", lambda folder: None)  # git and DVC take a second each
    start(folder, None, "text", mechanism)
    monkeypatch.chdir(folder)
    written = params.read()
    assert not checking.check(written)
    assert f"mine-{mechanism}" in written.cells


def test_a_mechanism_of_ones_own_is_copied_with_its_helpers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(starting, "_set_up", lambda folder: None)
    (tmp_path / "upper.py").write_text(UPPER)
    (tmp_path / "loudly.py").write_text("shout = str.upper\n")
    folder = tmp_path / "project"
    start(folder, None, "text", str(tmp_path / "upper.py"))
    assert sorted(path.name for path in (folder / "mechanisms").glob("*.py")) == ["loudly.py", "upper.py"]
    entry = params.read(folder / "params.yaml").cells["mine-upper"]
    assert (entry.file, entry.epsilons) == ("mechanisms/upper.py", None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--texts", "absent.csv"), "'absent.csv' does not exist; check the path"),
        (("--texts", "mail.csv", "--text", "subject"), "2 columns: unknown text column 'subject'"),
        (("--texts", "one.txt"), "has 1 distinct texts.*at least 2"),
        (("--text", "body"), "--text names a column of the file of texts"),
        (("--mechanism", "tme"), "unknown mechanism 'tme'; did you mean 'tem'"),
        (("--mechanism", "absent.py"), "file 'absent.py' not found"),
        (("--mechanism", "adept"), "adept needs a resource that is made"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys, words, message) -> None:
    texts(tmp_path)
    (tmp_path / "one.txt").write_text("alone\nalone\n")
    monkeypatch.chdir(tmp_path)
    code, _, error = call(capsys, "init", "mine", *words)
    assert code == 2
    assert re.search(message, error), error
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with refused("EPS-P041"):
        start(tmp_path, None, "text", "tem")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_texts_are_copied_where_nobody_else_looks(tmp_path, monkeypatch) -> None:
    """The folder is closed before the first byte, and the copy is no more open than the source."""
    seen = []

    def copied(source, place):
        seen.append(place.parent.parent.stat().st_mode & 0o777)
        real(source, place)

    real = starting._copy
    monkeypatch.setattr(starting, "_copy", lambda a, b: (copied if b.name == "mail.csv" else real)(a, b))
    monkeypatch.setattr(starting, "_set_up", lambda folder: None)
    file = texts(tmp_path)
    file.chmod(0o600)
    start(tmp_path / "mine", file, "body", "identity")
    assert seen == [0o700]
    assert (tmp_path / "mine/data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "mine/data/texts/mail.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("others", ["owned", "linked", "open"])
def test_a_folder_that_others_can_fill_is_refused(tmp_path, monkeypatch, others) -> None:
    if others != "open" and os.geteuid() != 0:
        pytest.skip("only root can make another user's folder")
    folder, target = tmp_path / "mine", tmp_path / "target"
    target.mkdir()
    if others == "open":
        target.rename(folder)
        folder.chmod(0o777)
    elif others == "owned":
        target.rename(folder)
        os.chown(folder, 65534, 65534)
    else:
        folder.symlink_to(target)
        os.lchown(folder, 65534, 65534)
    refusal = ("EPS-C056", "0777") if others == "open" else ("EPS-C055", "65534")
    with refused(*refusal, str(folder)):
        start(folder, None, "text", "identity")
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_that_another_user_makes_meanwhile_is_refused(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "mine"

    def meanwhile(mechanism):
        folder.mkdir()
        os.chown(folder, 65534, 65534)
        return real(mechanism)

    real = starting._audited
    monkeypatch.setattr(starting, "_audited", meanwhile)
    with refused("EPS-C055"):
        start(folder, None, "text", "identity")
    assert not list(folder.iterdir())


def test_an_upgrade_renews_what_is_the_packages(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(starting, "_set_up", lambda folder: None)
    folder = tmp_path / "mine"
    start(folder, None, "text", "tem")
    wanted = {path: path.read_text() for path in (folder / "dvc.yaml", folder / "params.yaml")}
    before = {path: path.stat().st_mtime_ns for path in wanted}
    renew(folder)
    assert {path: path.stat().st_mtime_ns for path in wanted} == before
    (folder / "dvc.yaml").write_text("stages: {}\n")  # as an older version left it, without a record of the device
    (folder / "params.yaml").write_text(wanted[folder / "params.yaml"].replace('device: "cpu"\n', ""))
    (folder / "data/embedded").unlink()
    (folder / "data/embedded").symlink_to(tmp_path / "gone")
    renew(folder)
    assert (folder / "dvc.yaml").read_text() == wanted[folder / "dvc.yaml"]
    assert 'device: "cpu"' in (folder / "params.yaml").read_text()
    assert (folder / "data/embedded/models").resolve() == EMBEDDED.resolve()


def test_make_passes_on_that_a_reaudit_is_fresh() -> None:
    said = subprocess.run(
        ["make", "-n", "-f", starting.TEMPLATE / "Makefile", "reaudit", "FRESH=1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "epsilometer.pipeline.flows.reaudit --fresh" in said


@pytest.mark.slow
def test_an_audit_runs_there_and_reruns_what_an_edit_changes(tmp_path) -> None:
    folder = tmp_path / "mine"
    said(tmp_path, "epsilometer", "init", "mine", "--texts", str(texts(tmp_path)), "--text", "body")
    content = yaml.safe_load((folder / "params.yaml").read_text())
    content |= {"cells": {"mine-mine": {"dataset": "mine", "mechanism": "mine", "file": "mechanisms/mine.py"}}}
    content["cells"]["mine-mine"]["epsilons"] = [4]
    content["trials"]["count"] = 50
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    assert "mine" in said(folder, "epsilometer", "pipeline", "repro")
    assert (folder / "reports/audit.html").is_file()
    assert "nothing has changed" in said(folder, "epsilometer", "pipeline", "why")
    record = (folder / "data/code/paths.json").read_text()
    assert '"epsilometer/core/mechanism.py"' in record, "the code of the package counts, wherever it lies"
    assert '"mechanisms/mine.py"' in record
    edited = (folder / "mechanisms/mine.py").read_text().replace('"***"', '"---"')
    (folder / "mechanisms/mine.py").write_text(edited)
    reasons = said(folder, "epsilometer", "pipeline", "why")
    assert "mechanisms/mine.py has changed" in reasons
    assert "embed@mine" not in reasons
    assert shutil.which("make") is None or "passed" in said(folder, "make", "test")
