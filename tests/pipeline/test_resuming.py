"""DVC alone decides what is stale: each level is an entry, and a killed stage resumes only from its own parts."""

from __future__ import annotations

from contextlib import chdir, suppress
from pathlib import Path

import pytest
import yaml

from epsilometer.pipeline.guard.inputs import guarded
from epsilometer.runtime.resuming import parts
from tests.support.featured import CELL, write_features
from tests.support.toy import Toy
from tests.support.warm import Warm

COUNTED = """        with Path("parts.txt").open("a") as log:
            log.write(f"{part.name} ")
        if Path("kill").exists():
            __import__("os").kill(__import__("os").getpid(), 9)
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Toy:
    """Heads and references on features that are there, and a log of the parts that stages finish.

    After each of these a stage is killed where there is a file `kill`. What runs stages is in no record of code.
    """
    toy = Toy(
        tmp_path_factory.mktemp("resuming"), stages=("code", "resources", "private_training", "references"), warm=warm
    )
    file = toy.folder / "epsilometer/runtime/resuming.py"
    ended = "        checksums.write(part)\n"
    assert file.read_text().count(ended) == 1
    file.write_text(file.read_text().replace(ended, ended + COUNTED))
    with chdir(toy.folder):
        write_features()
    toy.params["datasets"]["songs"] |= {"labels": ["mood"]}
    toy.params["features"] = {"songs": {"dataset": "songs", "model": "data/models/none"}}
    toy.params["models"] = {"none": "none"}
    toy.params["private_training"] = {"songs": {**CELL, "noise": "gaussian", "levels": [0.5, 2]}}
    toy.params["references"] = {"halves": {"training": "songs", "features": "songs", "count": 20}}
    toy.write_params()
    return toy


def repro(toy: Toy) -> set[str]:
    """The entries that ran."""
    assert toy.warm is not None
    _, said = toy.warm.run(("dvc", "repro"), toy.folder, toy.environment)
    lines = [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]
    assert lines, said
    return {*lines} - {"code", "resources"}


def finished(toy: Toy) -> list[str]:
    """The parts that stages finished since this was last asked."""
    log = toy.folder / "parts.txt"
    parts = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return parts


@pytest.mark.slow
def test_a_level_is_an_entry_and_a_killed_stage_goes_on(toy: Toy) -> None:
    trainings = {"private_training@songs-0.5", "private_training@songs-2"}
    assert repro(toy) == {*trainings, "references@halves"}
    assert sorted(finished(toy)) == ["0", "0", "0", "16", "8"]  # one part per seed, and references in blocks of eight
    answers = toy.folder / "data/references/halves/answers.npy"
    whole = answers.read_bytes()
    head = toy.folder / "data/trained/songs/2/0/head.safetensors"
    stamp = head.stat().st_mtime_ns

    toy.params["private_training"]["songs"]["levels"] = [0.5, 1, 2]
    toy.write_params()  # composes dvc.yaml again
    assert repro(toy) == {"private_training@songs-1"}
    assert head.stat().st_mtime_ns == stamp
    finished(toy)

    references = toy.params["references"]["halves"]
    (toy.folder / "kill").touch()
    for level in (0.5, 2):  # neither level reads data of the other
        references["level"] = level
        toy.write_params()
        assert repro(toy) == {"references@halves"}
        assert finished(toy) == ["0"]
    references["level"] = 0.5
    toy.write_params()
    (toy.folder / "kill").unlink()
    assert repro(toy) == {"references@halves"}
    assert finished(toy) == ["8", "16"]
    assert answers.read_bytes() != whole
    assert not (toy.folder / "data/begun").exists()

    toy.params["private_training"]["songs"]["rate"] = 0.5
    toy.write_params()
    toy.run("epsilometer", "stage", "resources")
    said = toy.run("epsilometer", "pipeline", "why", "references@halves")
    assert "setting private_training.songs.rate: 0.01 before, 0.5 now" in said


def test_attacks_in_another_order_find_nothing_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For DVC their order is no change, and stages number their parts by it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_STAGE", "dvc.yaml:search")
    stage = {"cmd": "true", "params": ["attacks"]}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"search": stage}}))

    def goes_on(*attacks: str) -> bool:
        """Whether a killed stage of these attacks finds its first part; the part is finished then."""
        Path("params.yaml").write_text(yaml.safe_dump({"attacks": {name: {} for name in attacks}}, sort_keys=False))
        with suppress(KeyboardInterrupt), guarded(), parts() as begun:
            before = "0" in begun
            with begun.part("0"):
                pass
            raise KeyboardInterrupt
        return before

    assert [goes_on("first", "second"), goes_on("first", "second")] == [False, True]
    assert not goes_on("second", "first")
    assert goes_on("first", "second")
