"""The record of batches on a GPU, written by hand, because the test machine has no GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from epsilometer.core.errors import UserError
from epsilometer.core.file_names import SHOW
from epsilometer.models.memory import Memory
from epsilometer.pipeline.guard import entry
from epsilometer.report.origin import device
from epsilometer.runtime import batches
from epsilometer.runtime.scaling import Engine, run
from tests.support.slice_work import noting

RECORD = Path("data/batches/rewrite/queries-tem.json")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    for ends in ("end_with_parent", "heed_interrupts", "end_in_time"):  # this process
        monkeypatch.setattr(entry, ends, lambda *_: None)
    monkeypatch.setenv(SHOW, "1")  # withholding would redirect the output of all tests that follow
    return tmp_path


def stage(work: Callable[[], object]) -> None:
    entry.run(lambda key: work(), "rewrite queries-tem", "queries-tem")


def in_memory(device: str, halvings: int = 0) -> None:
    memory = Memory(device, "a model", budget=1000)
    for _ in range(halvings + 1):
        for each in (10, 100, 10):
            memory.rows(each, 64)
        if halvings:
            memory.halve()
            halvings -= 1


def test_a_stage_on_a_gpu_records_its_rows_and_their_halving(project: Path) -> None:
    stage(lambda: in_memory("cuda", halvings=1))
    expected = {"model": "a model", "budget": 1000, "halvings": 1, "batches": [[10, 32], [10, 64], [100, 4], [100, 8]]}
    assert json.loads(RECORD.read_text()) == [expected]
    assert batches.halved(project) == {"rewrite/queries-tem": 1}
    assert device(project) == "rewrite/queries-tem (out of memory, rows halved 1 times)"
    assert not list(project.rglob("*.notes"))
    assert "EPSILOMETER_BATCHES" not in os.environ


def test_a_stage_on_the_processor_records_nothing_and_takes_an_older_record_away(project: Path) -> None:
    stage(lambda: in_memory("cuda"))
    assert RECORD.exists()
    assert batches.halved(project) == {}
    stage(lambda: in_memory("cpu"))
    assert not RECORD.exists()


def test_work_that_goes_on_after_a_kill_has_the_batches_of_both_runs() -> None:
    def fails() -> None:
        Memory("cuda", "first", budget=1000).rows(10, 64)
        raise UserError("a fault")

    with pytest.raises(SystemExit):
        stage(fails)
    assert not RECORD.exists()
    stage(lambda: Memory("cuda", "second", budget=1000).rows(100, 64))
    assert [(entry["model"], entry["batches"]) for entry in json.loads(RECORD.read_text())] == [
        ("first", [[10, 64]]),
        ("second", [[100, 8]]),
    ]


def test_workers_note_into_the_same_record() -> None:
    workers: set[int] = set()
    stage(lambda: workers.update(run(noting, [1, 2, 3, 4], Engine(workers=2))))
    assert os.getpid() not in workers
    assert [entry["model"] for entry in json.loads(RECORD.read_text())] == [f"model {part}" for part in (1, 2, 3, 4)]
