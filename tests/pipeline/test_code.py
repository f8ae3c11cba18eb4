"""DVC reruns exactly what an edit affects: an edit of settings, of a user's own files, or of modules that they import.

The stored measurements of a search depend on these modules, too.
"""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.core.imports import reached
from epsilometer.core.syntax import parsed
from epsilometer.models import devices
from epsilometer.pipeline import bodies
from epsilometer.pipeline.stages import resources
from epsilometer.project.code import digest, record
from epsilometer.project.sections import Cell
from tests.support.toy import STAGES, Toy
from tests.support.warm import Warm

MINE = """from helper import kept

def rewrite(text, epsilon, rng):
    return text if kept(rng) else "play"
"""
ALWAYS = {"code", "resources"}  # stages that always run
METADATA = "Metadata-Version: 2.1\nName: pretended\nVersion: {}\n"
REPRO = ("python", "-m", "epsilometer.pipeline.repro")
CALIBRATE = ("python", "-m", "epsilometer.pipeline.guard.entry", "calibrate", "rows.json")
VARIED = {"epsilon": 1, "trials": 20, "candidates": [], "temperatures": [0], "seeds": 0}
HELPER = """def kept(rng):
    return rng.random() < 0.5

def unused():
    import elsewhere_pretended
"""
ATTACK = """import guessing
from epsilometer.core.component import component

@component
class Attack:
    place: int = 0

    def guess(self, rewrites, candidates, context):
        return guessing.first(candidates) + self.place
"""
JUDGEMENTS = {"source": "epsilometer/corpora/synthetic.py", "part": "judgements", "count": 40}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Toy:
    """The toy project with a mechanism and an attack that each import a helper, and a second mechanism without.

    The helper imports a package, of which a file beside it says the version. The audit's factors are varied in one
    cell; a second data set, which no cell audits, is drawn from a grammar.
    """
    sandbox = Toy(tmp_path_factory.mktemp("code"), trials=40, stages=(*STAGES, "ablations"), warm=warm)
    plain = sandbox.params["cells"]["songs-mine"]
    own = {"mechanism": "own", "file": "own.py", "epsilons": [1, 50]}
    sandbox.params["mechanisms"]["own"] = own
    sandbox.params["cells"] = {"songs-mine": plain, "songs-own": {**own, "dataset": "songs"}}
    sandbox.params["ablations"] = {"songs-own": {**own, "dataset": "songs", **VARIED}}
    sandbox.params["datasets"]["judgements"] = {**JUDGEMENTS, "use": "train", "match": None, "public": True}
    files = {
        "own.py": MINE,
        "helper.py": HELPER,
        "pretended.py": "",
        "pretended-1.dist-info/METADATA": METADATA.format(1),
        "pretended-1.dist-info/top_level.txt": "elsewhere_pretended\n",
        "guess.py": ATTACK,
        "guessing.py": "import numpy as np\n\ndef first(candidates):\n    return np.zeros(len(candidates), int)\n",
    }
    (sandbox.folder / "pretended-1.dist-info").mkdir()
    for name, text in files.items():
        (sandbox.folder / name).write_text(text)
    sandbox.params["attacks"] = {"length": {}, "guess.py": {}}
    sandbox.write_params()
    repro(sandbox)
    return sandbox


def test_a_record_names_the_device_of_what_computes_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path()
    assert record([bodies()["embed"]], here)["device"] == {"kind": "cpu"}
    assert "device" not in record([bodies()["trials"]], here)
    monkeypatch.setattr(devices, "described", lambda: {"kind": "cuda", "name": "A GPU"})
    assert record([bodies()["embed"]], here)["device"]["name"] == "A GPU"


def repro(toy: Toy) -> set[str]:
    """The stages that ran."""
    return ran(toy.run("dvc", "repro"))


def ran(log: str) -> set[str]:
    return {line.split("'")[1] for line in log.splitlines() if line.startswith("Running stage")}


def stale(toy: Toy) -> set[str]:
    """The stages that DVC takes for changed once texts are prepared and records of code written; they are not run."""
    toy.run("dvc", "repro", *ALWAYS)
    return json.loads(toy.run("dvc", "status", "--json")).keys() - ALWAYS


def append(toy: Toy, name: str, text: str) -> None:
    path = toy.folder / name
    path.write_text(path.read_text() + text)


def test_settings_of_how_it_runs_change_nothing(toy: Toy) -> None:
    toy.params["runtime"] = {"block": 16, "workers": 2}
    toy.write_params()
    assert repro(toy) == ALWAYS
    before = toy.results()
    toy.run("dvc", "repro", "--force", "--single-item", "rewrite@songs-mine")
    assert toy.results() == before
    toy.params["runtime"] = {"block": 65536, "workers": 1}
    toy.write_params()


def test_only_what_a_changed_helper_reaches_runs_again(toy: Toy) -> None:
    append(toy, "helper.py", "\n\ndef kept(rng):\n    return rng.random() < 0.25\n")
    assert repro(toy) == {*ALWAYS, "rewrite@songs-own", "attack@songs-own", "ablations@songs-own", "estimate"}
    append(toy, "guessing.py", "\n\ndef first(candidates):\n    return np.ones(len(candidates), int)\n")
    assert repro(toy) == {*ALWAYS, "estimate", "ablations@songs-own", "attack@songs-own", "attack@songs-mine"}
    append(toy, "own.py", "\nx = 1\n")  # the rewrites and the mechanism's claims do not change
    assert repro(toy) == {*ALWAYS, "rewrite@songs-own", "attack@songs-own", "ablations@songs-own"}


@pytest.mark.slow
def test_records_that_would_be_equal_are_not_written_again(toy: Toy) -> None:
    repro(toy)
    before = recorded(toy)
    assert ran(toy.run(*REPRO)) == set()
    assert recorded(toy) == before
    assert repro(toy) == ALWAYS
    assert recorded(toy) == before
    append(toy, "helper.py", "\n\ndef another(): ...\n")
    assert ran(toy.run(*REPRO)) >= {*ALWAYS, "rewrite@songs-own"}
    record, edited = toy.folder / "data/code/estimate.json", recorded(toy)
    record.write_text(record.read_text() + " ")
    assert ran(toy.run(*REPRO)) == {"code"}
    assert recorded(toy) == edited


def recorded(toy: Toy) -> dict[str, Any]:
    """The content of dvc.lock, whose order depends on the runner, and the records of code and resources."""
    records = (file for kind in ALWAYS for file in (toy.folder / "data" / kind).rglob("*.json"))
    lock = yaml.safe_load((toy.folder / "dvc.lock").read_text())
    return lock["stages"] | {file.relative_to(toy.folder).as_posix(): file.read_bytes() for file in records}


def test_an_upgraded_package_runs_what_imports_it_and_the_progress_bar_runs_nothing(toy: Toy) -> None:
    append(toy, "epsilometer/runtime/progress.py", "\nx = 1\n")
    append(toy, "epsilometer/pipeline/guard/parent.py", "\nx = 1\n")
    assert toy.run("epsilometer", "pipeline", "why") == "nothing has changed\n"
    (toy.folder / "pretended-1.dist-info/METADATA").write_text(METADATA.format(2))
    said = toy.run("epsilometer", "pipeline", "why", "rewrite")
    assert said == "rewrite@songs-own:\n  package pretended: 1 before, 2 now\n"
    log = toy.run("dvc", "repro")
    assert ran(log) == {*ALWAYS, "rewrite@songs-own", "attack@songs-own", "ablations@songs-own"}
    assert "why: package pretended: 1 before, 2 now" in log


def test_settings_make_stale_what_reads_them(toy: Toy) -> None:
    """An attack's parameter all attacks, and no rewrites."""
    before = deepcopy(toy.params)
    toy.params["attacks"]["guess.py"] = {"place": -1}
    toy.write_params()
    assert stale(toy) == {"ablations@songs-own", "attack@songs-own", "attack@songs-mine", "estimate"}
    toy.params = deepcopy(before)
    toy.params["datasets"]["more"] = toy.params["datasets"]["songs"]
    toy.params["cells"]["more-mine"] = toy.params["cells"]["songs-mine"] | {"dataset": "more"}
    toy.write_params()
    assert stale(toy) == {"embed@more", "trials@more", "rewrite@more-mine", "attack@more-mine", "estimate"}
    toy.params = before
    toy.write_params()


def test_an_epsilon_reruns_its_cell_and_keeps_the_other_rewrites(toy: Toy) -> None:
    rewrites = (toy.folder / "data/rewrites/songs-mine/5.parquet").read_bytes()
    for entry in (toy.params["mechanisms"]["mine"], toy.params["cells"]["songs-mine"]):
        entry["epsilons"] = [1, 5, 9]
    toy.write_params()
    assert repro(toy) == {*ALWAYS, "rewrite@songs-mine", "attack@songs-mine", "estimate"}
    assert (toy.folder / "data/rewrites/songs-mine/5.parquet").read_bytes() == rewrites
    assert (toy.folder / "data/rewrites/songs-mine/9.parquet").exists()


@pytest.mark.slow
def test_a_new_round_draws_fresh_noise_on_the_same_trials(toy: Toy) -> None:
    before = (toy.folder / "data/rewrites/songs-mine/1.parquet").read_bytes()
    toy.params["audit"]["round"] = 1
    toy.write_params()
    cells = {f"{stage}@songs-{name}" for stage in ("rewrite", "attack") for name in ("mine", "own")}
    assert cells <= stale(toy) <= {*cells, "ablations@songs-own", "estimate"}
    toy.run("dvc", "repro", "rewrite@songs-mine")
    assert (toy.folder / "data/rewrites/songs-mine/1.parquet").read_bytes() != before
    toy.params["audit"]["round"] = 0
    toy.write_params()


def test_a_failed_stage_leaves_nothing_behind_and_the_next_run_goes_on(toy: Toy) -> None:
    file = toy.folder / "mine.py"
    good = file.read_text()
    file.write_text("def rewrite(text, epsilon, rng):\n    return None\n")
    assert "NoneType for text 1 of " in toy.run("dvc", "repro", "rewrite@songs-mine", code=255)
    assert not list((toy.folder / "data/rewrites").glob("songs-mine/*"))
    assert not list((toy.folder / "data").rglob("*.partial"))
    file.write_text(good)
    assert "rewrite@songs-own" not in repro(toy)
    assert (toy.folder / "data/rewrites/songs-mine/5.parquet").exists()


@pytest.mark.slow
def test_an_edited_grammar_draws_the_texts_again(toy: Toy) -> None:
    """Grammars are data that no import names."""
    prepared, grammar = toy.folder / "data/prepared/judgements.parquet", "epsilometer/corpora/grammars/judgements.yaml"
    before = prepared.read_bytes()
    append(toy, grammar, "# edited\n")
    assert f"{grammar} has changed" in toy.run("epsilometer", "pipeline", "why", "prepare")
    assert ran(toy.run("dvc", "repro", *ALWAYS)) == {*ALWAYS, "prepare@judgements"}
    assert prepared.read_bytes() == before
    written = (toy.folder / grammar).read_text()
    (toy.folder / grammar).write_text(written.replace("the {n", "some {n"))
    assert stale(toy) == {"embed@judgements", "trials@judgements", "estimate"}
    assert prepared.read_bytes() != before
    (toy.folder / grammar).write_text(written)
    assert stale(toy) == set()
    assert prepared.read_bytes() == before


@pytest.mark.slow
def test_what_a_search_has_kept_is_not_used_after_an_edit(toy: Toy) -> None:
    search = (
        "epsilometer", "calibrate", "--target", "0.5", "--mechanism", "own", "--dataset", "songs",
        "--attack", "guess.py", "--width", "4", "--budget", "200", "--json",
    )  # fmt: skip

    def journals() -> set[Path]:
        toy.run(*search, code=3)  # too few rewrites to decide
        return set((toy.folder / "data/calibrating").glob("*.jsonl"))

    first = journals()
    assert len(first) == 1
    assert journals() == first
    for number, name in enumerate(("helper.py", "guessing.py"), 2):
        append(toy, name, "\nx = 1\n")
        assert len(journals()) == number


def named(toy: Toy, path: str) -> set[str]:
    """The paths of the files of a record."""
    paths = json.loads((toy.folder / "data/code/paths.json").read_text())
    record = json.loads((toy.folder / path).read_text())
    return {name for key in record["files"] for name in paths[key]}


def test_the_files_of_a_record_have_names(toy: Toy) -> None:
    rewrite = "data/code/rewrite/songs-own.json"
    assert named(toy, rewrite) >= {"own.py", "helper.py", "epsilometer/pipeline/stages/rewrite.py"}
    assert json.loads((toy.folder / rewrite).read_text())["packages"].keys() >= {"numpy", "polars"}
    attack = named(toy, "data/code/attack/songs-own.json")
    used = {"guess.py", "guessing.py", "epsilometer/attacks/identification/length.py", "epsilometer/core/attack.py"}
    assert attack >= used
    assert not [file for file in attack if file.startswith(("epsilometer/runtime/", "epsilometer/pipeline/guard/"))]
    assert "epsilometer/__init__.py" not in attack


def test_prose_and_moves_make_nothing_stale(toy: Toy) -> None:
    """A moved module with its imports, and a docstring of the package, beside an edit that counts."""
    toy.run("dvc", "repro")
    (toy.folder / "parts").mkdir()
    (toy.folder / "helper.py").rename(toy.folder / "parts/moved.py")
    own, length = toy.folder / "own.py", toy.folder / "epsilometer/attacks/identification/length.py"
    before = {file: file.read_text() for file in (own, length)}
    own.write_text(before[own].replace("from helper import", "from parts.moved import"))
    length.write_text('"""Another docstring."""\n# and a comment\n' + before[length].partition('"""\n')[2])
    assert stale(toy) == set()
    append(toy, "parts/moved.py", "\n\nlast = 1\n")
    assert toy.run("epsilometer", "pipeline", "why", "rewrite") == (
        "rewrite@songs-own:\n  file parts/moved.py has changed or is new\n"
    )
    for file, text in before.items():
        file.write_text(text)
    (toy.folder / "parts/moved.py").rename(toy.folder / "helper.py")


@pytest.mark.parametrize("stage", ["rewrite", "attack"])
def test_a_stage_loads_nothing_that_its_record_lacks(toy: Toy, stage: str) -> None:
    """Also what is found by name; modules that can change no result are left out."""
    code = (
        "import sys; from importlib import import_module as load\n"
        f"load('epsilometer.pipeline.stages.{stage}').main('songs-mine')\n"
        "print(*(m.__file__ for m in [*sys.modules.values()] if getattr(m, '__file__', None)), sep='\\n')"
    )
    files = [Path(line) for line in toy.run("python", "-c", code).splitlines() if line.endswith(".py")]
    loaded = {str(path.relative_to(toy.folder)) for path in files if path.is_relative_to(toy.folder)}
    top = ("epsilometer/__init__.py", "epsilometer/core/version.py", "epsilometer/pipeline/__init__.py")
    neutral = (*top, "epsilometer/runtime/")
    counted = {path for path in loaded if not path.startswith(neutral) and parsed((toy.folder / path).read_bytes())[0]}
    assert counted <= named(toy, f"data/code/{stage}/songs-mine.json")
    assert "mine.py" in loaded


def test_imports_of_every_form_are_followed(tmp_path: Path) -> None:
    files = {
        "mine.py": "import numpy\nfrom parts import near\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import unseen\n\ndef late():\n    import parts.deep.far as far\n",
        "parts/__init__.py": "",
        "parts/near.py": "from . import beside\nfrom .deep import far",
        "parts/beside.py": "from mine import late",
        "parts/deep/far.py": "import missing.entirely",
        "unseen.py": "",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    sources, elsewhere = reached(tmp_path / "mine.py")
    expected = {"mine.py", "parts/__init__.py", "parts/near.py", "parts/beside.py", "parts/deep/far.py"}
    assert {path.relative_to(tmp_path).as_posix() for path in sources} == expected
    assert elsewhere == {"numpy", "typing", "missing"}

    def name() -> str:
        return digest({}, [], [tmp_path / "mine.py"], [], tmp_path)

    before = name()
    (tmp_path / "other.py").write_text("1")
    assert name() == before
    (tmp_path / "parts/deep/far.py").write_text("")
    assert name() != before


def test_other_texts_settings_code_or_data_have_another_digest(tmp_path: Path) -> None:
    code, data = tmp_path / "mine.py", tmp_path / "vectors.npz"
    code.write_text("x = 1")
    data.write_bytes(b"12")
    base = digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path)
    assert digest({"epsilon": 1}, ["a b"], [code], [tmp_path / "vectors.npz"], tmp_path) == base
    assert digest({"epsilon": 1}, ["a b"], [code], [tmp_path], tmp_path) == base, "Python counts as code, once"
    (tmp_path / "more.npz").write_bytes(b"12")
    assert digest({"epsilon": 1}, ["a b"], [code], [tmp_path], tmp_path) != base
    assert digest({"epsilon": 2}, ["a b"], [code], [data], tmp_path) != base
    assert digest({"epsilon": 1}, ["a", "b"], [code], [data], tmp_path) != base
    code.write_text("x = 2")
    changed = digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path)
    assert changed != base
    data.write_bytes(b"123")
    assert digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path) != changed


@pytest.mark.slow
def test_a_search_below_a_flow_withholds_what_components_write(toy: Toy) -> None:
    """As stages do: its output ends in Prefect's logs."""
    quoting = "text = 'PLEASE PLAY'.lower()\n    print(text)\n    raise RuntimeError(text)\n"
    append(toy, "helper.py", f"\n\ndef kept(rng):\n    {quoting}")
    request = {"target": 0.5, "attack": "guess.py", "budget": 200, "mechanisms": ["own"], "datasets": []}
    shown = toy.run(*CALIBRATE, json.dumps(request), code=1)
    assert "please play" not in shown
    assert "RuntimeError: message withheld" in shown
    request["mechanisms"] = ["mine"]
    toy.run(*CALIBRATE, json.dumps(request))
    assert {row["mechanism"] for row in json.loads((toy.folder / "rows.json").read_text())} == {"mine"}


def test_why_names_settings_inputs_outputs_and_files(toy: Toy) -> None:
    entries = [toy.params["cells"]["songs-own"], toy.params["ablations"]["songs-own"]]
    for entry in entries:
        entry["epsilons"] = [2, 50]
    toy.write_params()
    append(toy, "songs.txt", "one more song\n")
    append(toy, "own.py", "\ny = 1\n")
    (toy.folder / "data/trials/songs.json").unlink()
    said = toy.run("epsilometer", "pipeline", "why")
    for line in (
        "prepare@songs:\n  input songs.txt has changed\n",
        "trials@songs:\n  output data/trials/songs.json is missing\n",
        "rewrite@songs-own:\n  setting cells.songs-own.epsilons: [1, 50] before, [2, 50] now\n",
        "  file own.py has changed or is new\n",
    ):
        assert line in said
    toy.run("epsilometer", "stage", "resources")
    shutil.copy(toy.folder / "data/guesses/songs-own.json", toy.folder / "data/guesses/songs-third.json")
    assert toy.run("epsilometer", "pipeline", "why", "estimate").endswith(
        "  setting cells.songs-own.epsilons: [1.0, 50.0] before, [2.0, 50.0] now\n"
        "  input data/guesses/songs-third.json is new\n"
        "  input data/trials/songs.json is missing\n"
    )
    assert "unknown stage 'rewrit'" in toy.run("epsilometer", "pipeline", "why", "rewrit", code=2)


def test_a_cell_reads_its_resource_and_the_models_that_its_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data/models/there", "data/models/back"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(name)
    cell = Cell(dataset="d", mechanism="m", resource="data/models/there", settings={"back": "data/models/back", "k": 1})
    before = resources._hashes(cell, {"data/models/there": "its hash"})
    assert list(before) == ["data/models/there", "data/models/back/config.json"]
    (tmp_path / "data/models/back/config.json").write_text("another")
    after = resources._hashes(cell, {"data/models/there": "its hash"})
    assert {path for path in before if before[path] != after[path]} == {"data/models/back/config.json"}
