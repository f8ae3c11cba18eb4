"""Workflows on a hosted service: the action's script obeys its inputs, and everything that the files name exists."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from tests.support.places import ROOT
from tests.support.sparing import first

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
_, STEP = ACTION["runs"]["steps"]


def run(folder: Path, before: Path | None = None, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The action's second step, as a hosted runner executes it; before: a folder whose programs come first."""
    values = {name: str(of["default"]) for name, of in ACTION["inputs"].items()} | inputs
    variables = {
        name: values[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in STEP["env"].items()
    }
    environment = (
        os.environ
        | variables
        | {
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "PATH": ":".join(map(str, filter(None, (before, Path(sys.executable).parent, os.environ["PATH"])))),
            "PYTHONPATH": str(ROOT),
        }
    )
    command = ["bash", "-e", "-o", "pipefail", "-c", STEP["run"]]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "code", "status"), [("1", 0, "passed"), ("8", 1, "beyond")])
def test_the_action_passes_and_fails(tmp_path, epsilon: str, code: int, status: str) -> None:
    """As the project's own workflow runs it. False alarm, and false pass: .001 and .05 at a loss at its limit."""
    texts = str(ROOT / "tests/support/requests.txt")
    done = run(tmp_path, texts=texts, mechanism="randomized_response", epsilon=epsilon, **{"max-loss": "1.5"})
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert status.upper() in (tmp_path / "summary").read_text()
    assert json.loads((tmp_path / "gate.json").read_text())["passed"] == (status == "passed")


@pytest.mark.parametrize(("limit", "question"), first(1, [("max-delta-at-4", "tail"), ("max-loss", "which_text")]))
def test_the_action_passes_its_limits_on(tmp_path, limit: str, question: str) -> None:
    """0 is refused by either, and by its question's name."""
    done = run(tmp_path, texts=str(ROOT / "tests/support/requests.txt"), mechanism="identity", **{limit: "0"})
    assert done.returncode == 2
    assert f"the limit of {question}" in done.stderr


@pytest.mark.parametrize(
    ("ended", "undecided", "code", "status"),
    [(3, "fail", 3, "open"), (3, "warn", 0, "open"), (1, "warn", 1, "beyond"), (2, "warn", 2, "error")],
)
def test_an_open_gate_fails_or_warns(tmp_path, ended: int, undecided: str, code: int, status: str) -> None:
    """A stand-in for the gate ends as it is told, and nothing but an open gate is only warned of."""
    (tmp_path / "epsilometer").write_text(f"#!/bin/sh\nexit {ended}\n")
    (tmp_path / "epsilometer").chmod(0o755)
    done = run(tmp_path, before=tmp_path, texts="texts.txt", mechanism="mine.py", undecided=undecided)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert ("::warning" in done.stdout) == (code == 0)


def test_another_word_for_an_open_gate_is_refused(tmp_path) -> None:
    done = run(tmp_path, texts="texts.txt", mechanism="tem", undecided="ignore")
    assert (done.returncode, "undecided must be fail or warn" in done.stderr) == (2, True)


def test_limits_and_settings_are_given_a_line_each(tmp_path) -> None:
    """The last of them is refused by its own name, so all were read."""
    inputs = {"limits": "tail=0.01\nlinking=1", "with": "linking.facts=claims\nlinking.among=0"}
    done = run(tmp_path, texts=str(ROOT / "tests/support/requests.txt"), mechanism="identity", **inputs)
    assert done.returncode == 2
    assert "claims" in done.stderr


@pytest.mark.parametrize("place", first(1, ["file", "link", "folder"]))
def test_a_result_that_lies_there_is_not_believed(tmp_path, place: str) -> None:
    """Whether the gate gets to write one or, as here, does not: --max-increase is no number."""
    forged = json.dumps({"status": "passed\nsecret=forged"})
    for name in ("gate.json", "gate.md"):
        if place == "folder":
            (tmp_path / name).mkdir()
        elif place == "link":
            (tmp_path / "forged").write_text(forged)
            (tmp_path / name).symlink_to("forged")
        else:
            (tmp_path / name).write_text(forged)
    done = run(tmp_path, texts="texts.txt", mechanism="tem", **{"max-increase": "x"})
    assert done.returncode == 2
    assert (tmp_path / "output").read_text() == "status=error\n"
    assert not (tmp_path / "summary").exists()


def test_an_input_is_a_value_and_never_a_command(tmp_path) -> None:
    assert "${{" not in STEP["run"]
    done = run(tmp_path, texts="$(touch broken)", mechanism="tem; touch broken", **{"max-loss": "1"})
    assert done.returncode == 2
    assert not (tmp_path / "broken").exists()


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.name)
def test_workflows_read_and_run_what_exists(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert workflow["permissions"] == {"contents": "read"}
    for step in steps:
        inputs = step.get("with", {})
        if step.get("uses") == "./":
            assert set(inputs) <= set(ACTION["inputs"])
            assert (ROOT / inputs["texts"]).is_file()
        for word in step.get("run", "").split():
            if word.startswith((".ci/", "tests/")):
                assert (ROOT / word).is_file()


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.name)
def test_actions_are_named_by_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", file.read_text())
    assert used
    for action, comment in used:
        assert action == "./" or re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
        assert action == "./" or re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), "the version, for readers"


def test_a_merge_is_audited_again_and_fails_as_the_re_audit_does() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/reaudit.yml").read_text())
    assert workflow[True] == {"push": {"branches": ["main"]}}, "YAML reads `on` as true"
    step = workflow["jobs"]["reaudit"]["steps"][-1]
    assert step["run"].startswith("make reaudit |")
    assert step["shell"] == "bash", "which ends with the code of the first program of a pipe that failed"


def test_the_image_is_named_by_digest_and_does_not_run_as_root() -> None:
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    bases = [line[1] for line in lines if line[:1] == ["FROM"]]
    assert all(re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", base) for base in bases)
    last = [line[1] for line in lines if line[:1] == ["USER"]][-1]
    assert last not in ("root", "0")
    commands = [" ".join(line) for line in lines]
    assert commands.index(f"USER {last}") < commands.index("RUN make setup-test")


def pinned(text: str) -> dict[str, str]:
    """Versions by name, as indices write names."""
    lines = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


def test_all_that_is_installed_has_hashes_but_torch() -> None:
    versions = pinned((ROOT / "constraints.txt").read_text())
    del versions["torch"]  # its local builds have different hashes
    locks = [(ROOT / f"requirements/{name}.lock").read_text() for name in ("audit", "test", "uv")]
    assert pinned(locks[0]) | pinned(locks[1]) == versions
    entries = [
        entry
        for lock in locks
        for entry in re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE).strip())
    ]
    assert len(entries) == len(versions) + 1, "each in one lock, and uv"
    for entry in entries:
        assert re.fullmatch(r"\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry[:80]


@pytest.fixture
def installing() -> ModuleType:
    specification = importlib.util.spec_from_file_location("install", ROOT / "requirements/install.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_uv_is_told_which_indexes_pip_uses(installing: ModuleType) -> None:
    listed = """:env:.index-url='https://a.example/simple'
global.extra-index-url='https://b.example/simple file:///c'
global.index-url='https://nobody.example/simple'
global.find-links='/wheels /more'
global.timeout='9'"""
    assert installing.settings(listed) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://a.example/simple",
        "UV_INDEX": "https://b.example/simple file:///c",
        "UV_FIND_LINKS": "/wheels,/more",
    }


@pytest.mark.parametrize("broken", [None, "uv"])
def test_pip_installs_where_uv_fails(
    installing: ModuleType, broken: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hash first, then the project; every command of uv's may fail, and none of pip's."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        if broken in command[:3]:
            raise subprocess.CalledProcessError(2, command)
        commands.append(command)
        return SimpleNamespace(stdout="")

    monkeypatch.setattr(installing.subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["install.py", "audit"])
    installing.main()
    locked, project = commands[-2:]
    assert all(command[2] == ("uv" if broken is None else "pip") for command in (locked, project))
    assert {"--require-hashes", "--no-deps"} <= set(locked)
    assert str(ROOT / "requirements/test.lock") not in locked
    assert project[-1].endswith("[project,anonymisers]")
    assert ("uv could not install" in capsys.readouterr().err) == (broken is not None)


@pytest.mark.slow
def test_no_private_text_gets_into_the_image() -> None:
    """Whatever audits left in data/ stays outside; the weights, which git has, come along."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert rules.index("data/*") < rules.index("!data/embedded")
    assert {"runs", ".dvc/cache", ".dvc/config.local", ".dvc-site/repo/*", ".prefect"} <= set(rules)
