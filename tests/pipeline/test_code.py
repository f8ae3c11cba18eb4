"""What a user's own files import is a dependency: of the stages that use them, and of what a search has kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epsilometer.core.imports import reached
from epsilometer.project.fingerprint import fingerprint
from tests.support.toy import STAGES, Toy

MINE = """from helper import kept

def rewrite(text, epsilon, rng):
    return text if kept(rng) else "play"
"""
VARIED = {"epsilon": 1, "trials": 20, "candidates": [], "temperatures": [0], "seeds": 0}
ATTACK = """import guessing

class Attack:
    def guess(self, rewrites, candidates, context):
        return guessing.first(candidates)
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy project with a mechanism and an attack that each import a helper, and a second mechanism without.

    The audit's factors are varied in both cells.
    """
    made = Toy(tmp_path_factory.mktemp("code"), trials=40, stages=(*STAGES, "ablations"))
    plain = made.params["cells"]["songs-mine"]
    own = {"mechanism": "own", "file": "own.py", "resource": "data/prepared/songs.parquet", "epsilons": [1, 50]}
    made.params["mechanisms"]["own"] = own
    made.params["cells"] = {"songs-mine": plain, "songs-own": {**own, "dataset": "songs"}}
    made.params["ablations"] = {name: {**cell, **VARIED} for name, cell in made.params["cells"].items()}
    files = {
        "own.py": MINE,
        "helper.py": "def kept(rng):\n    return rng.random() < 0.5\n",
        "guess.py": ATTACK,
        "guessing.py": "import numpy as np\n\ndef first(candidates):\n    return np.zeros(len(candidates), int)\n",
    }
    for name, text in files.items():
        (made.folder / name).write_text(text)
    made.params["attacks"] = {"length": {}, "guess.py": {}}
    made.write_params()
    repro(made)
    return made


def repro(toy: Toy) -> set[str]:
    """The stages that ran."""
    lines = toy.run("dvc", "repro").splitlines()
    return {line.split("'")[1] for line in lines if line.startswith("Running stage")}


def append(toy: Toy, name: str, text: str) -> None:
    path = toy.folder / name
    path.write_text(path.read_text() + text)


def test_only_what_a_changed_helper_reaches_runs_again(toy: Toy) -> None:
    assert repro(toy) == {"code"}
    append(toy, "helper.py", "\n\ndef kept(rng):\n    return rng.random() < 0.25\n")
    assert repro(toy) == {"code", "rewrite@songs-own", "attack@songs-own", "ablations@songs-own", "estimate"}
    append(toy, "guessing.py", "\n\ndef first(candidates):\n    return np.ones(len(candidates), int)\n")
    every = {f"{stage}@songs-{name}" for stage in ("attack", "ablations") for name in ("mine", "own")}
    assert repro(toy) == {"code", "estimate", *every}
    append(toy, "own.py", "\n")
    assert repro(toy) >= {"code", "rewrite@songs-own"}


def test_another_data_set_leaves_the_cells_alone(toy: Toy) -> None:
    toy.params["datasets"]["more"] = toy.params["datasets"]["songs"]
    entry = toy.params["cells"]["songs-mine"] | {"dataset": "more", "resource": "data/prepared/more.parquet"}
    toy.params["cells"]["more-mine"] = entry
    toy.params["ablations"]["more-mine"] = {**entry, **VARIED}
    toy.write_params()
    new = {f"{stage}@more" for stage in ("prepare", "embed", "trials")}
    new |= {f"{stage}@more-mine" for stage in ("rewrite", "attack", "ablations")}
    assert repro(toy) == {"code", "estimate", *new}


def test_what_a_search_has_kept_is_not_used_after_an_edit(toy: Toy) -> None:
    search = (
        "python", "-m", "epsilometer.cli", "calibrate", "--target", "0.5", "--mechanism", "own", "--dataset", "songs",
        "--attack", "guess.py", "--width", "4", "--budget", "200", "--json",
    )  # fmt: skip

    def kept() -> set[Path]:
        toy.run(*search)
        return set((toy.folder / "data/calibrating").glob("*.jsonl"))

    first = kept()
    assert len(first) == 1
    assert kept() == first
    for number, name in enumerate(("helper.py", "guessing.py"), 2):
        append(toy, name, "\n")
        assert len(kept()) == number


def test_the_record_names_the_files(toy: Toy) -> None:
    own = json.loads((toy.folder / "data/code/cells/songs-own.json").read_text())
    assert own.keys() == {"own.py", "helper.py"}
    attacks = json.loads((toy.folder / "data/code/attacks.json").read_text())
    assert attacks.keys() >= {
        "guess.py",
        "guessing.py",
        "epsilometer/attacks/identification/length.py",
        "epsilometer/core/attack.py",
    }
    assert "epsilometer/__init__.py" not in attacks


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
    found, elsewhere = reached(tmp_path / "mine.py")
    expected = {"mine.py", "parts/__init__.py", "parts/near.py", "parts/beside.py", "parts/deep/far.py"}
    assert {path.relative_to(tmp_path).as_posix() for path in found} == expected
    assert elsewhere == {"numpy", "typing", "missing"}

    def name() -> str:
        return fingerprint({}, [], tmp_path / "mine.py", [])

    before = name()
    (tmp_path / "other.py").write_text("1")
    assert name() == before
    (tmp_path / "parts/deep/far.py").write_text("")
    assert name() != before


def test_a_search_below_a_flow_withholds_what_components_write(toy: Toy) -> None:
    """As stages do: its output ends in Prefect's logs."""
    quoting = "text = 'PLEASE PLAY'.lower()\n    print(text)\n    raise RuntimeError(text)\n"
    append(toy, "helper.py", f"\n\ndef kept(rng):\n    {quoting}")
    asked = {"target": 0.5, "attack": "guess.py", "budget": 200, "mechanisms": ["own"], "datasets": []}
    shown = toy.run("python", "-m", "epsilometer.pipeline.stages.calibrate", "rows.json", json.dumps(asked), code=1)
    assert "please play" not in shown
    assert "RuntimeError: message withheld" in shown
    asked["mechanisms"] = ["mine"]
    toy.run("python", "-m", "epsilometer.pipeline.stages.calibrate", "rows.json", json.dumps(asked))
    assert {row["mechanism"] for row in json.loads((toy.folder / "rows.json").read_text())} == {"mine"}
