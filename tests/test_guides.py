"""Everything that the guides name exists, and the templates of CONTRIBUTING.md work as described."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.report.environment import show
from tests.support.audited import audit
from tests.support.commands import app
from tests.support.places import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    """The blocks of CONTRIBUTING.md in a language, without the indent of the list that they stand in."""
    matches = re.findall(rf"^( *)```{language}\n(.*?)^ *```", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in matches]


GUIDES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
BUILT = {"settings.md"}  # `make docs` writes it


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_the_files_that_guides_name_are_there(guide: Path) -> None:
    text = guide.read_text()
    named = set(re.findall(r"`((?:epsilometer|tests|docs|tasks|flows|benchmarks|profiles)/[\w/.-]+)`", text))
    linked = set(re.findall(r"\]\((?!http)([\w/.-]+)", text))
    missing = [path for path in named if not re.search("[A-Z]{3}", path) and not (ROOT / path).exists()]
    assert not missing
    assert not [path for path in linked if Path(path).name not in BUILT and not (guide.parent / path).exists()]


@pytest.mark.parametrize("command", re.findall(r"`epsilometer (check (?:mechanism|attack|metric) .+?)`", CONTRIBUTING))
def test_the_templates_pass_the_conformance_tests(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        if name := re.match(r"# (\w+\.py)\n", code):
            Path(name[1]).write_text(code)
    assert not app(shlex.split(command))
    assert capsys.readouterr().out.count("ok ") > 3


def test_the_template_of_a_stage_is_as_short_as_the_others_and_lists_no_code() -> None:
    (text,) = blocks("yaml")
    assert len(text.splitlines()) <= 12
    (stage,) = (body["do"] for body in yaml.safe_load(text).values())
    assert stage["deps"][0] == "data/code/lengths.json"
    assert not any(".py" in dep for dep in stage["deps"])
    (body,) = [code for code in blocks("python") if "def main(" in code]
    compile(body, "lengths.py", "exec")


def test_the_template_of_a_section_renders() -> None:
    (code,) = [code for code in blocks("python") if "def section(" in code]
    scope: dict[str, Any] = {"__file__": "lengths.py"}
    exec(code, scope)
    section = scope["section"](audit())
    shown = show(section)
    assert f'<section id="{section.id}"' in shown
    assert ">9.0</td>" in shown
