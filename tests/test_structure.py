"""The house's plan: imports point one way, and stages depend on records of their code."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo
from networkx import descendants

from epsilometer.core import imports
from epsilometer.core.imports import direct
from epsilometer.pipeline import bodies
from epsilometer.pipeline.composing import fragments
from tests.support.places import ROOT

# Each folder may import from itself and from those before it.
FLOORS = [
    ["core"],
    ["runtime", "text", "accounting"],
    ["models", "corpora"],
    ["mechanisms", "metrics", "training"],
    ["attacks"],
    ["auditing"],
    ["project"],
    ["reaudit"],
    ["report"],
    ["studies"],
    ["pipeline"],
    ["cli", "pytest_plugin"],
]
FLOOR = {name: i for i, floor in enumerate(FLOORS) for name in floor}
# The same inside auditing/, for its folders and for what stands beside them.
AUDITING = [
    ["schemas", "trials", "estimation"],
    ["claims", "worth"],
    ["results", "one_run"],
    ["text_audit"],
    [
        "deniability",
        "external",
        "known_loss",
        "one_claim",
        "planning",
        "publication",
        "units",
        "identifiers",
        "linking",
    ],
    ["calibration", "exact_loss", "failures", "gate"],
    ["decisions", "limits"],
    ["ceilings", "conformance", "gating", "truth", "worst_pair"],
]
AUDITING_FLOOR = {name: i for i, floor in enumerate(AUDITING) for name in floor}
MOST = 12  # modules of a folder that one still takes in at a glance


def reached(file: Path) -> list[Path]:
    return [path for path in imports.reached(file, [ROOT])[0] if path.name != "__init__.py"]


def sources(folder: str) -> list[Path]:
    fetched = ROOT / "benchmarks/peers/code"  # of others
    return sorted(file for file in (ROOT / folder).rglob("*.py") if fetched not in file.parents)


@pytest.mark.parametrize("file", sources("epsilometer"), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(file: Path) -> None:
    place = file.relative_to(ROOT / "epsilometer").parts[0].removesuffix(".py")
    if place == "__init__" or "template" in file.parts:  # which are files of a user's project
        return
    for used in direct(file, (ROOT,))[0]:
        package, *rest = used.relative_to(ROOT).parts
        if rest == ["__init__.py"]:
            continue
        assert package == "epsilometer", f"{file.name} imports {used.name}: the library knows neither stages nor flows"
        assert FLOOR[rest[0].removesuffix(".py")] <= FLOOR[place], f"{file} imports {used}, which stands above it"


@pytest.mark.parametrize("file", sources("epsilometer/auditing"), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_inside_auditing_point_one_way(file: Path) -> None:
    auditing = ROOT / "epsilometer/auditing"
    if (place := file.relative_to(auditing).parts[0].removesuffix(".py")) == "__init__":
        return
    for used in direct(file, (ROOT,))[0]:
        if used.is_relative_to(auditing) and used.name != "__init__.py":
            part = used.relative_to(auditing).parts[0].removesuffix(".py")
            below = part == place or AUDITING_FLOOR[part] < AUDITING_FLOOR[place]
            assert below, f"{file} imports {used}, which does not stand below it"


@pytest.mark.parametrize("folder", ["", "trials", "estimation", "claims", "results", "one_run", "calibration"])
def test_folders_of_auditing_are_small(folder: str) -> None:
    modules = [file for file in (ROOT / "epsilometer/auditing" / folder).glob("*.py") if file.name != "__init__.py"]
    assert 0 < len(modules) <= MOST


STUDIES = sorted(path.name for path in (ROOT / "epsilometer/studies").glob("[!_]*/"))


@pytest.mark.parametrize("study", STUDIES)
def test_no_study_imports_another(study: str) -> None:
    for file in sources(f"epsilometer/studies/{study}"):
        for used in direct(file, (ROOT,))[0]:
            if used.is_relative_to(ROOT / "epsilometer/studies") and used.name != "__init__.py":
                assert used.relative_to(ROOT / "epsilometer/studies").parts[0] == study, f"{file} imports {used}"


@pytest.mark.parametrize("name", sorted(bodies()))
def test_no_stage_but_the_report_reaches_what_is_shown(name: str) -> None:
    """So that an edit of a section, or of its template, reruns the report alone."""
    shown = [path for path in reached(bodies()[name]) if "report" in path.parent.name or path.parent.name == "report"]
    assert bool(shown) == (name == "report"), shown


BODY = 100  # lines of a stage


@pytest.mark.parametrize("name", sorted(bodies()))
def test_a_stage_is_thin(name: str) -> None:
    """What it computes stands in its study, where it can be called without files."""
    assert len(bodies()[name].read_text(encoding="utf-8").splitlines()) <= BODY


def test_mechanisms_attacks_and_estimation_are_strangers() -> None:
    for file in sources("epsilometer/mechanisms"):
        assert not any("attack" in str(used) or "estimation" in str(used) for used in reached(file))
    for file in [*sources("epsilometer/attacks"), *sources("epsilometer/metrics")]:
        used = [str(path) for path in reached(file)]
        assert not any("estimation" in path or ("/mechanisms/" in path and "/shared/" not in path) for path in used)
    used = {path.name for path in reached(ROOT / "epsilometer/auditing/estimation/successes.py")}
    assert used == {"successes.py", "errors.py"}


def test_the_library_knows_neither_dvc_nor_prefect() -> None:
    for file in sources("epsilometer"):
        if file.is_relative_to(ROOT / "epsilometer/pipeline"):
            continue
        text = file.read_text()
        assert "import dvc" not in text
        assert "import prefect" not in text
        assert "from prefect" not in text


def test_no_module_of_others_is_patched() -> None:
    """An upgrade would end it unseen. `sys.excepthook` is meant to be set."""
    patches = []
    for file, nodes in parsed().items():
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                owner = ast.unparse(node).partition(".")[0]
                if owner in imported and ast.unparse(node) != "sys.excepthook":
                    patches.append(f"{file}: {ast.unparse(node)}")
    assert not patches


def test_every_stage_depends_on_its_record_and_lists_no_code() -> None:
    for name, stage in fragments().items():
        deps = stage.get("do", stage).get("deps", [])
        assert not any(".py" in dep or "/epsilometer/" in dep for dep in deps), name
        if name not in ("code", "resources"):
            assert deps[0] in (f"data/code/{name}.json", f"data/code/{name}/${{key}}.json")


@pytest.mark.parametrize(
    "name",
    [
        *("rewrite", "attack", "exact", "ablations", "sweeps", "privatize", "downstream", "anonymize", "anonymity"),
        "leaderboard_cells",
        *("features", "private_training", "references", "membership", "one_run"),
    ],
)
def test_what_a_cell_depends_on_is_its_own(name: str) -> None:
    """Else another cell's edit, or another data set, would run it again. Classifiers of clean texts are shared."""
    stage = fragments()[name]["do"]
    shared = {f"data/code/{name}.json", "data/classifiers"}
    read = {dep for dep in stage["deps"] if dep.startswith("data/")} - shared
    assert read
    assert not {dep for dep in read if "${key}" not in dep and "${item." not in dep}
    whole = {"datasets", "cells", "downstream", "ablations", "sweeps", "features", "private_training"}
    assert not whole & {*stage["params"]}


def test_no_stage_depends_on_how_it_is_run() -> None:
    stages = fragments()
    for name, stage in stages.items():
        assert not any(p.startswith("runtime") for p in stage.get("do", stage).get("params", [])), name


def test_tests_mirror_the_packages() -> None:
    """A folder of tests has the name of the package that it tests."""
    places = {path.parent.relative_to(ROOT / "tests") for path in sources("tests") if path.name.startswith("test_")}
    packages = {ROOT / ("" if place.parts[:1] == ("pretraining",) else "epsilometer") / place for place in places}
    assert not [path for path in packages if not (path.is_dir() or path.with_suffix(".py").is_file())]


@pytest.mark.parametrize("file", sources("tests"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_test_imports_another(file: Path) -> None:
    """What two of them need stands in tests/support."""
    used = {
        path.relative_to(ROOT / "tests") for path in direct(file, (ROOT,))[0] if path.is_relative_to(ROOT / "tests")
    }
    assert not [str(path) for path in used if path.parts[0] != "support" and path.name != "__init__.py"]


def test_importing_costs_nothing() -> None:
    code = (
        "import sys, epsilometer, epsilometer.auditing.text_audit, epsilometer.pipeline.params\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'sklearn', 'datasets', 'prefect', 'dvc'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_what_builds_mechanisms_comes_after_what_they_are_made_of() -> None:
    """Stage claims reads whichever resources the cells name; DVC runs independent stages in any order."""
    with Repo(str(ROOT)) as repo:
        graph = repo.index.graph
        before = descendants(graph, next(node for node in graph if getattr(node, "name", None) == "claims"))
        outputs = {str(Path(out.fs_path).relative_to(ROOT)) for node in before for out in node.outs}
    cells = yaml.safe_load((ROOT / "params.yaml").read_text())["cells"].values()
    needed = {cell["resource"] for cell in cells if "resource" in cell}
    assert any(resource.startswith("data/models/") for resource in needed)
    assert needed <= outputs


def test_tasks_hold_one_file_a_stage() -> None:
    stages = fragments()
    assert {path.stem for path in sources("tasks")} == {"__init__", *stages}


LONGEST = 60  # lines of a function, its signature and docstring included


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{file}:{node.lineno}: {node.name}"
        for file, nodes in parsed().items()
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST
    ]
    assert not long, "\n".join(long)


PARAMETERS, BY_POSITION = 7, 4  # of a public function at most; of a call at most


@cache
def parsed(folder: str = "epsilometer") -> dict[Path, list[ast.AST]]:
    """All parts of each file but those that say nothing themselves, as operators."""
    return {
        file: [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if node._fields]
        for file in sources(folder)
    }


@pytest.fixture(autouse=True, scope="module")
def _parsed() -> Iterator[None]:
    """They are a million objects, through which Python would go whenever it collects garbage."""
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()


def test_no_public_function_takes_more_than_seven_parameters() -> None:
    """What needs more takes one frozen dataclass of settings. Commands take more: Typer reads options off a signature,
    and Prefect the parameters of a deployment.
    """
    wrong = []
    for file, nodes in parsed().items():
        if {"cli", "flows"} & {*file.relative_to(ROOT).parts}:
            continue
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [parameter.arg for parameter in every if parameter.arg not in ("self", "cls")]
                if len(names) > PARAMETERS:
                    wrong.append(f"{file}:{node.lineno}: {node.name} takes {len(names)}: {names}")
    assert not wrong, "\n".join(wrong)


def test_no_call_passes_more_than_four_arguments_by_position() -> None:
    """Calls of functions and classes of the package, dataclasses too, that their names show; `cls(...)` is one.

    A function of any number of arguments (`Noise.named`) has no names to give, and what libraries take is theirs.
    """
    code = parsed()
    defined = {"cls"}
    for node in (node for nodes in code.values() for node in nodes):
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.args.vararg is None):
            defined.add(node.name)
    calls, wrong = 0, []
    for file, nodes in code.items():
        asnames = {a.asname for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names} - {None}
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name not in defined | asnames:
                continue
            calls += 1
            passed = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
            if len(passed) > BY_POSITION:
                wrong.append(f"{file}:{node.lineno}: {name} gets {len(passed)} by position")
    assert not wrong, "\n".join(wrong)
    assert calls > 1000  # so that a rename of this test's ways to see calls is noticed


# A name says what a thing is, not how it came about, nor that it is one of several.
EMPTY = {"found", "made", "kept", "drawn", "told", "where"}
SEVERAL = {"one", "known", "asked", "given"}
PUBLIC = {"core/membership.py", "core/outcomes.py"}  # whose `asked` users' attacks read, and tables have as a column
UNREAD: set[str] = set()


def test_names_say_what_a_thing_is() -> None:
    folders, wrong = ("epsilometer", "benchmarks", "pretraining", "tests"), []
    for file, nodes in (item for folder in folders for item in parsed(folder).items()):
        for node in nodes:
            stored = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
            if stored or isinstance(node, ast.arg | ast.FunctionDef | ast.ClassDef):
                name = {"Name": "id", "Attribute": "attr", "arg": "arg"}.get(type(node).__name__, "name")
                package, *rest = file.relative_to(ROOT).parts
                banned = EMPTY if package == "epsilometer" and rest[0] in UNREAD else EMPTY | SEVERAL
                allowed = {"asked"} if "/".join(rest) in PUBLIC else set()
                if getattr(node, name).strip("_") in banned - allowed:
                    wrong.append(f"{file}:{node.lineno}: {getattr(node, name)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("stage", ["estimate", "report"])
def test_what_judges_a_mechanism_does_not_build_it(stage: str) -> None:
    """The rewrite stage writes what it states of itself (`auditing.claims.stated`) beside its rewrites."""
    tree = ast.parse(bodies()[stage].read_text())
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    assert not names & {"mechanism", "build_mechanism", "as_mechanism"}
