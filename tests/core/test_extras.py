"""Extras: the packages that optional parts need, and the message if one is missing."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

import epsilometer
from epsilometer.auditing import text_audit
from epsilometer.auditing.trials import design as designs
from epsilometer.auditing.trials.design import Design, as_installed
from epsilometer.cli import main
from epsilometer.core.errors import UserError
from epsilometer.core.extras import EXTRAS, explained, installed, missing
from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STUBS = {"_typeshed", "typing_extensions"}


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


def imported() -> set[str]:
    """The modules that files of the package import, third parties' alone."""
    modules = set()
    for file in (ROOT / "epsilometer").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules.add(str(node.module).partition(".")[0])
    by_pytest = {"pytest"}  # pytest itself loads `pytest_plugin`
    return modules - set(sys.stdlib_module_names) - STUBS - by_pytest - {"epsilometer", "tests"}


def test_every_module_comes_with_the_core_or_an_extra_that_names_it() -> None:
    core = {distribution(dependency) for dependency in PROJECT["dependencies"]}
    brought = {module for modules in EXTRAS.values() for module in modules}
    distributions = packages_distributions()
    for module in imported() - brought:
        of = {name.lower().replace("_", "-") for name in distributions.get(module, [module])}
        assert of & core, f"{module} is imported, and neither a dependency of the core nor among EXTRAS"


def test_extras_are_those_of_the_package() -> None:
    assert set(EXTRAS) | {"all", "docs", "test"} == set(PROJECT["optional-dependencies"])


def test_a_missing_module_is_explained() -> None:
    error = missing(ModuleNotFoundError("No module named 'torch'", name="torch.nn"))
    assert str(error) == "this needs torch, which is not installed: pip install 'epsilometer[models]'"
    assert missing(ModuleNotFoundError("No module named 'theirs'", name="theirs")) is None


@pytest.mark.parametrize(("name", "expected"), [("dvc", UserError), ("theirs", ModuleNotFoundError)])
def test_public_calls_explain_what_is_missing(name: str, expected: type[Exception]) -> None:
    def call() -> None:
        raise ModuleNotFoundError(name=name)

    with pytest.raises(expected):
        explained(call)()


def test_the_command_line_explains_it_in_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "epsilometer.cli.app", None)
    with pytest.raises(SystemExit) as stopped:  # a missing module of the package is a fault, not a missing extra
        main(["list"])
    assert stopped.value.code == 2
    assert "pip install" not in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "epsilometer.cli.app")
    monkeypatch.setitem(sys.modules, "dvc.cli", None)
    monkeypatch.delitem(sys.modules, "epsilometer.pipeline.repro", raising=False)
    with pytest.raises(SystemExit) as stopped:
        main(["pipeline", "repro"])
    assert stopped.value.code == 2
    assert "pip install 'epsilometer[project]'" in capsys.readouterr().err


def test_without_an_encoder_candidates_are_uniform_and_the_embedding_attack_stays_away(monkeypatch, capsys) -> None:
    monkeypatch.setattr(designs, "installed", lambda extra: False)
    monkeypatch.setattr(text_audit, "installed", lambda extra: False)
    assert as_installed(Design()).temperature == 0
    assert "epsilometer[models]" in capsys.readouterr().err
    assert "embedding" not in text_audit.chosen_attacks(None)
    texts = [f"{a} to {b}" for a in "abcd" for b in "efgh"]
    table = epsilometer.audit(texts, lambda text, rng: text, trials=50)
    assert {"lexical", "length"} < set(table["attack"])
    assert "embedding" in capsys.readouterr().err


def test_what_is_installed() -> None:
    assert installed("models")
