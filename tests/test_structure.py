"""The structure of the project: imports point in one direction, and stages depend on records of their code."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from networkx import descendants

from epsilometer.core import imports
from epsilometer.core.imports import direct
from epsilometer.pipeline import bodies
from epsilometer.pipeline.composing import fragments
from tests.support.places import ROOT

# Each folder may import from itself and from the folders before it.
FLOORS = [
    ["core"],
    ["runtime", "text", "accounting"],
    ["models", "corpora"],
    ["mechanisms", "metrics"],
    ["attacks"],
    ["game"],
    ["auditing"],
    ["project"],
    ["reaudit"],
    ["cells"],
    ["report"],
    ["questions"],
    ["doors"],
    ["pipeline"],
    ["cli", "pytest_plugin"],
    ["studies"],
]
FLOOR = {name: i for i, floor in enumerate(FLOORS) for name in floor}
# The same inside auditing/, for its folders and its single modules.
AUDITING = [
    ["schemas", "trials", "estimation"],
    ["curves", "evidence"],
    ["claims", "worth"],
    ["results"],
    ["text_audit"],
    [
        "deniability",
        "external",
        "one_claim",
        "planning",
        "publication",
        "corpora",
        "identifiers",
        "linking",
        "attributes",
    ],
    ["calibration", "exact_loss", "gate_statistics", "subject"],
    ["question"],
    ["decisions", "limits"],
    ["ceilings", "conformance"],
]
AUDITING_FLOOR = {name: i for i, floor in enumerate(AUDITING) for name in floor}
MOST = 12  # maximum number of modules in a folder
# One folder has more, a file each for a kind of law whose loss is computed, and what these share. Its number stands
# here so that it does not grow unseen.
LARGER = {"exact_loss": 18}


def reached(file: Path) -> list[Path]:
    return [path for path in imports.reached(file, [ROOT])[0] if path.name != "__init__.py"]


def sources(folder: str) -> list[Path]:
    fetched = ROOT / "benchmarks/peers/code"  # code by others
    return sorted(file for file in (ROOT / folder).rglob("*.py") if fetched not in file.parents)


def importing(folder: str) -> Iterator[tuple[Path, str, Path]]:
    """Files of a folder of the package, the part of it in which each stands, and files that they import."""
    for file in sources(folder):
        part = file.relative_to(ROOT / folder).parts[0].removesuffix(".py")
        if part != "__init__" and "template" not in file.parts:  # templates are files of a user's project
            for used in direct(file, (ROOT,))[0]:
                yield file, part, used


def test_imports_point_one_way() -> None:
    wrong = []
    for file, part, used in importing("epsilometer"):
        package, *rest = used.relative_to(ROOT).parts
        if package != "epsilometer":
            wrong.append(f"{file} imports {used}: the library knows neither stages nor flows")
        elif rest != ["__init__.py"] and FLOOR[rest[0].removesuffix(".py")] > FLOOR[part]:
            wrong.append(f"{file} imports {used}, which stands above it")
    assert not wrong, "\n".join(wrong)


def test_imports_inside_auditing_point_one_way() -> None:
    auditing, wrong = ROOT / "epsilometer/auditing", []
    for file, part, used in importing("epsilometer/auditing"):
        if used.is_relative_to(auditing) and used.name != "__init__.py":
            below = used.relative_to(auditing).parts[0].removesuffix(".py")
            if below != part and AUDITING_FLOOR[below] >= AUDITING_FLOOR[part]:
                wrong.append(f"{file} imports {used}, which does not stand below it")
    assert not wrong, "\n".join(wrong)


def test_folders_of_auditing_are_small() -> None:
    auditing = ROOT / "epsilometer/auditing"
    counts = Counter(
        str(file.parent.relative_to(auditing)) for file in sources("epsilometer/auditing") if file.name != "__init__.py"
    )
    assert counts["."]
    assert {folder: count for folder, count in counts.items() if count > MOST} == LARGER


LEAST = 40  # minimum number of lines of a module that a single module imports
# Folders of components, which are found by the names of their files.
COMPONENTS = {"attacks", "mechanisms", "metrics", "questions"}


def test_no_short_module_has_a_single_importer() -> None:
    """It belongs where it is used. `cli/app.py` lists the commands of every group, and a group is a file."""
    package = ROOT / "epsilometer"
    importers: dict[Path, set[Path]] = {}
    for file, _, used in importing("epsilometer"):
        if used.is_relative_to(package) and used.name != "__init__.py":
            importers.setdefault(used, set()).add(file)
    short = set()
    for used, files in importers.items():
        place = used.relative_to(package)
        component = COMPONENTS & {*place.parts[:-1]} and "shared" not in place.parts
        if len(files) == 1 and not component and files != {package / "cli/app.py"}:
            short |= {place.as_posix()} if len(used.read_text(encoding="utf-8").splitlines()) < LEAST else set()
    assert not short


def test_the_core_names_no_study() -> None:
    """It finds them by their entry points; a module's name in a string would be an import, too."""
    named = re.compile(r"\bstudies[./]\w")
    assert not [
        f"{file}:{node.lineno}: {node.value}"
        for file in sources("epsilometer")
        if not file.is_relative_to(ROOT / "epsilometer/studies")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and named.search(node.value)
    ]


STUDIES = sorted(path.name for path in (ROOT / "epsilometer/studies").glob("[!_]*/"))


@pytest.mark.parametrize("study", STUDIES)
def test_no_study_imports_another(study: str) -> None:
    for file in sources(f"epsilometer/studies/{study}"):
        for used in direct(file, (ROOT,))[0]:
            if used.is_relative_to(ROOT / "epsilometer/studies") and used.name != "__init__.py":
                assert used.relative_to(ROOT / "epsilometer/studies").parts[0] == study, f"{file} imports {used}"


def test_no_stage_but_the_report_reaches_what_is_shown() -> None:
    """So that an edit of a section, or of its template, reruns the report alone."""
    shown = {name for name, body in bodies().items() if any("report" in p.parent.parts for p in reached(body))}
    assert shown == {"report"}


def test_no_stage_reaches_what_the_core_finds_of_a_study() -> None:
    """It names the commands and sections of the study, whose edit would rerun the stage."""
    entries = {ROOT / f"epsilometer/studies/{study}/study.py" for study in STUDIES}
    assert not {name for name, body in bodies().items() if entries & {*reached(body)}}


BODY = 100  # maximum number of lines of a stage


def test_a_stage_is_thin() -> None:
    """What it computes stands in its study, where it can be called without files."""
    lines = {name: len(body.read_text(encoding="utf-8").splitlines()) for name, body in bodies().items()}
    assert not {name: count for name, count in lines.items() if count > BODY}


def test_the_game_is_played_in_one_place() -> None:
    """One call makes every guess; another loop over attacks could give other streams or show other tables."""
    calls = [
        file.relative_to(ROOT).as_posix()
        for file, nodes in parsed().items()
        for node in nodes[ast.Call]
        if getattr(node.func, "id", None) == "guesses_of"
    ]
    assert calls == ["epsilometer/game/play.py"]


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
    """An upgrade would end it unseen. Python's hooks for errors are meant to be set."""
    hooks = {"sys.excepthook", "sys.unraisablehook", "threading.excepthook"}
    patches = []
    for file, nodes in parsed().items():
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in [*nodes[ast.Import], *nodes[ast.ImportFrom]]
            for alias in node.names
        }
        for node in nodes[ast.Attribute]:
            owner = ast.unparse(node).partition(".")[0]
            if owner in imported and ast.unparse(node) not in hooks:
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
    beside = {"pretraining", "benchmarks"}  # of the package
    places = {place for place in places if place.parts[:1] != ("goldens",)}  # of the project as a whole
    packages = {ROOT / ("" if beside & {*place.parts[:1]} else "epsilometer") / place for place in places}
    assert not [path for path in packages if not (path.is_dir() or path.with_suffix(".py").is_file())]


def test_no_test_imports_another() -> None:
    """What two of them need stands in tests/support."""
    tests = ROOT / "tests"
    assert not [
        f"{file} imports {used}"
        for file in sources("tests")
        for used in direct(file, (ROOT,))[0]
        if used.is_relative_to(tests)
        and not used.is_relative_to(tests / "support")
        and used.name != "__init__.py"
        and not (used.parent == file.parent == tests / "goldens")  # this is a program of several files
    ]


def test_no_test_depends_on_the_clock() -> None:
    """A busy machine is slow: a test waits for an event, with the last resort of `tests/support/waiting.py`."""
    clocks = {"sleep", "monotonic", "perf_counter", "time", "process_time"}
    waits = {"run", "communicate", "wait", "join", "urlopen", "get", "post", "Client"}
    violations = set()
    for file in sources("tests"):
        if file.parent.name == "support" or file.name == "test_kills.py":  # test_kills kills at random moments
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in clocks:
                    violations.add(f"{file.relative_to(ROOT)}:{node.lineno}: time.{name}")
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args, keywords=keywords):
                    seconds = [k.value for k in keywords if k.arg == "timeout"] + (
                        args if name in ("wait", "join") else []
                    )
                    if name in waits and any(
                        isinstance(s, ast.Constant) and not isinstance(s.value, str) for s in seconds
                    ):
                        violations.add(f"{file.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not violations


def test_importing_costs_nothing() -> None:
    code = (
        "import sys, epsilometer\n"
        "epsilometer.audit\n"
        "print(sorted({'scipy.stats', 'scipy.optimize', 'scipy.signal'} & set(sys.modules)))\n"
        "import epsilometer.auditing.text_audit, epsilometer.pipeline.params\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'sklearn', 'datasets', 'prefect', 'dvc'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["[]", "[]"]


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


def test_tasks_and_flows_hold_no_logic() -> None:
    """One task runs any stage; what a command of `flows/` calls stands in the package."""
    assert {path.stem for path in sources("tasks")} == {"__init__", "reproduce"}
    for file in [*sources("tasks"), *sources("flows")]:
        statements = [type(node) for node in ast.parse(file.read_text()).body[1:]]
        assert {*statements} <= {ast.ImportFrom, ast.Assign, ast.If}, file


# DVC's documented programming interface, and modules needed to use it. Others change without notice.
PUBLIC_DVC = {"dvc.api", "dvc.cli", "dvc.exceptions", "dvc.repo"}
DEPENDENCIES_OF_DVC = {"diskcache", "dvc_data", "dvc_objects", "dvc_render", "scmrepo", "voluptuous", "zc"}


def test_only_the_public_modules_of_dvc_are_imported() -> None:
    used = set()
    for nodes in parsed().values():
        used |= {alias.name for node in nodes[ast.Import] for alias in node.names}
        used |= {node.module for node in nodes[ast.ImportFrom] if node.module and not node.level}
    assert PUBLIC_DVC & used
    assert {name for name in used if name.partition(".")[0] == "dvc"} <= PUBLIC_DVC
    assert not {name.partition(".")[0] for name in used} & DEPENDENCIES_OF_DVC


LONGEST = 60  # maximum number of lines of a function, including signature and docstring


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{file}:{node.lineno}: {node.name}"
        for file, nodes in parsed().items()
        for node in nodes[ast.FunctionDef]
        if node.end_lineno - node.lineno >= LONGEST
    ]
    assert not long, "\n".join(long)


PARAMETERS, BY_POSITION = 7, 4  # maximum number for a public function, and for a call


STORE = ast.Store()
READ = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.arg, ast.Call, ast.FunctionDef, ast.ClassDef)


@cache
def parsed(folder: str = "epsilometer") -> dict[Path, dict[type[ast.AST], list[Any]]]:
    """The parts of each file that the tests read, by kind; of names and attributes those that are assigned."""
    files: dict[Path, dict[type[ast.AST], list[Any]]] = {}
    for file in sources(folder):
        kinds = files[file] = {kind: [] for kind in READ}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if type(node) in kinds and isinstance(getattr(node, "ctx", STORE), ast.Store):
                kinds[type(node)].append(node)
    return files


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
        if {"cli", "flows", "commands", "commands.py"} & {*file.relative_to(ROOT).parts}:
            continue
        for node in nodes[ast.FunctionDef]:
            if not node.name.startswith("_"):
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
    for nodes in code.values():
        defined |= {node.name for node in nodes[ast.ClassDef]}
        defined |= {node.name for node in nodes[ast.FunctionDef] if node.args.vararg is None}
    calls, wrong = 0, []
    for file, nodes in code.items():
        asnames = {a.asname for node in nodes[ast.ImportFrom] for a in node.names} - {None}
        for node in nodes[ast.Call]:
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name not in defined | asnames:
                continue
            calls += 1
            passed = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
            if len(passed) > BY_POSITION:
                wrong.append(f"{file}:{node.lineno}: {name} gets {len(passed)} by position")
    assert not wrong, "\n".join(wrong)
    assert calls > 1000  # so that a change that hides calls from this test is noticed


# A name should say what a thing is, not how it was made, or that it is one of several.
EMPTY = {"found", "made", "kept", "drawn", "told", "where", "one", "known", "asked", "given"}
NAMED = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.FunctionDef: "name", ast.ClassDef: "name"}
# whose `asked` users' attacks read, and tables have as a column
PUBLIC = {ROOT / "epsilometer/studies/training/membership.py", ROOT / "epsilometer/core/outcomes.py"}


def test_names_say_what_a_thing_is() -> None:
    folders, wrong = ("epsilometer", "benchmarks", "pretraining", "tests"), []
    for file, nodes in (item for folder in folders for item in parsed(folder).items()):
        allowed = {"asked"} if file in PUBLIC else set()
        for kind, name in NAMED.items():
            wrong += [
                f"{file}:{node.lineno}: {getattr(node, name)}"
                for node in nodes[kind]
                if getattr(node, name).strip("_") in EMPTY - allowed
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("stage", ["estimate", "report"])
def test_what_judges_a_mechanism_does_not_build_it(stage: str) -> None:
    """The rewrite stage writes what it states of itself (`auditing.claims.stated`) beside its rewrites."""
    tree = ast.parse(bodies()[stage].read_text())
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    assert not names & {"mechanism", "build_mechanism", "as_mechanism"}
