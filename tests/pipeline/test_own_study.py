"""A study in somebody else's package: its section of params.yaml, stage, section of the report, and command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import epsilometer
from epsilometer.core.study import studies
from epsilometer.pipeline import bodies, composing, module
from epsilometer.pipeline.params import params_type, read
from epsilometer.pipeline.stages import code, prepare
from epsilometer.pipeline.stages import report as report_stage
from tests.support.places import ROOT
from tests.support.refusals import refused

PARAMS = """
audit: {seed: 0}
datasets:
  talk: {source: talk.csv, split: null}
lengths: {talk: {dataset: talk}}
"""


def install(site: Path) -> None:
    """Write the package that the page shows, and the metadata that an installer writes."""
    page = (ROOT / "docs/how-to/your-own-study.md").read_text(encoding="utf-8")
    for name, content in re.findall(r"```\w+\n# (epsilometer_lengths/\S+)\n(.*?)```", page, re.DOTALL):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content, encoding="utf-8")
    for folder in ("epsilometer_lengths", "epsilometer_lengths/stages"):
        (site / folder / "__init__.py").touch()
    info = site / "epsilometer_lengths-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: epsilometer-lengths\nVersion: 1.0\n")
    (points,) = re.findall(r"```toml\n.*?\n(lengths = .*?)\n```", page, re.DOTALL)
    (info / "entry_points.txt").write_text("[epsilometer.studies]\n" + points.replace('"', "") + "\n")


def forget() -> None:
    for cached in (studies, params_type, composing.fragments):
        cached.cache_clear()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the study is installed; the current folder is a project that names it."""
    site, project = tmp_path / "site", tmp_path / "project"
    install(site)
    project.mkdir()
    (project / "params.yaml").write_text(PARAMS)
    (project / "talk.csv").write_text("text\nhello\nhello again\nhello there you\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(project)
    forget()
    yield site
    for name in [name for name in sys.modules if name.partition(".")[0] == "epsilometer_lengths"]:
        del sys.modules[name]
    forget()


def test_its_stage_runs_and_the_report_shows_its_section(site: Path) -> None:
    composing.write(read())
    stages = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    assert stages["lengths"]["do"]["cmd"] == "epsilometer stage lengths ${key}"
    assert "data/lengths" in stages["report"]["deps"]
    assert "lengths" in stages["report"]["params"]
    assert "resources" in stages
    code.main()
    prepare.main("talk")
    import_module(module(bodies()["lengths"])).main("talk")
    assert json.loads(Path("data/lengths/talk.json").read_text()) == {"mean": 2.0}
    report_stage.main()
    assert "How long the texts are" in Path("data/report.html").read_text(encoding="utf-8")
    files = json.loads(Path("data/code/paths.json").read_text())
    shown = json.loads(Path("data/code/report.json").read_text())["files"]
    (section,) = [key for key, paths in files.items() if "report.py" in paths]  # by name, because outside the project
    assert section in shown  # so that an edit of the section runs the report again


def test_its_settings_are_checked_with_the_others(site: Path) -> None:
    for section, values in (
        ("lengths: {talk: {dataset: tolk}}", ("lengths.talk.dataset", "tolk")),
        ("lengths: {talk: {}}", ("lengths.talk.dataset: missing",)),
        ("lengths: {}", ("questions, cells, ", ", lengths, ")),
        ("length: {}", ("'length'", "'lengths'")),
    ):
        Path("params.yaml").write_text(PARAMS.replace("lengths: {talk: {dataset: talk}}", section))
        with refused("EPS-P060", *values):
            read()


def test_its_names_are_in_the_package(site: Path) -> None:
    assert epsilometer.mean_words(["a b", "a b c d"]) == 3
    assert {"mean_words", "one_run"} <= {*dir(epsilometer)}


def test_its_command_is_one_of_epsilometer(site: Path) -> None:
    program = [sys.executable, "-m", "epsilometer.cli"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    done = subprocess.run([*program, "count-words", "a b c"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.parametrize(
    ("file", "before", "after", "refusal"),
    [
        ("params.py", "lengths: Mapping", "sent: Mapping", ("EPS-P071", "sent", "params.yaml")),
        ("stages.yaml", "lengths:\n  foreach", "prepare:\n  foreach", ("EPS-P070", "epsilometer_lengths", "prepare")),
    ],
)
def test_it_replaces_nothing(site: Path, file: str, before: str, after: str, refusal: tuple[str, ...]) -> None:
    path = site / "epsilometer_lengths" / file
    path.write_text(path.read_text().replace(before, after))
    with refused(*refusal):
        composing.compose(read())


def test_the_command_line_loads_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "sklearn", "scipy", "polars", "dvc", "prefect")
    program = f"import sys, epsilometer.cli.app; print(sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
