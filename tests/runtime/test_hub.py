"""Files of the hub arrive whole, with the bytes of their commit, and interrupted downloads resume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from epsilometer.runtime.hub import Repository, fetch, recorded, snapshot, state
from tests.support.hub import COMMIT, Hub, hub
from tests.support.refusals import refused

MODEL = Repository("model", "nobody/words", COMMIT)
WEIGHTS = bytes(range(256)) * 2000


def everything(names: Sequence[str], _: object) -> list[str]:
    return list(names)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub(tmp_path / "cache", monkeypatch) as server:
        server.files["models/nobody/words"] = {"config.json": b"{}", "parts/model.safetensors": WEIGHTS}
        yield server


def blobs(tmp_path: Path, suffix: str) -> list[Path]:
    return [path for path in tmp_path.rglob(f"blobs/*{suffix}") if path.suffix == suffix]


def test_a_repository_comes_whole_and_once(served: Hub) -> None:
    assert snapshot(MODEL) is None
    assert state(MODEL).size is None
    folder = fetch(MODEL, everything)
    assert (folder / "parts/model.safetensors").read_bytes() == WEIGHTS
    assert folder == snapshot(MODEL)
    assert folder.name == COMMIT
    assert [(file.name, file.size, len(file.hash)) for file in recorded(MODEL) or []] == [
        ("config.json", 2, 40),
        ("parts/model.safetensors", len(WEIGHTS), 64),
    ]
    assert state(MODEL).whole
    assert state(MODEL).here == 2 + len(WEIGHTS)
    requests = len(served.requests)
    fetch(MODEL, everything)
    assert len(served.requests) == requests  # nothing was downloaded twice


def test_only_what_is_wanted_comes(served: Hub) -> None:
    folder = fetch(
        MODEL, lambda names, read: [name for name in names if read("config.json") in name or "model" in name]
    )
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["config.json", "model.safetensors"]
    assert [file.name for file in recorded(MODEL) or []] == ["parts/model.safetensors"]


def test_a_branch_is_the_commit_that_it_was(served: Hub) -> None:
    branch = Repository("model", "nobody/words", "v1")
    assert snapshot(branch) is None
    assert fetch(branch, everything) == snapshot(branch) == snapshot(MODEL)


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_connection_that_breaks_is_taken_up_where_it_broke(
    served: Hub, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "stall":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 3)
    served.faults["parts/model.safetensors"] = fault
    folder = fetch(MODEL, everything)
    assert (folder / "parts/model.safetensors").read_bytes() == WEIGHTS
    starts = [start for name, start in served.requests if name.startswith("parts")]
    assert starts[0] == 0
    assert len(starts) == 2
    assert 0 < starts[1] <= len(WEIGHTS) // 2


def test_a_later_process_goes_on_with_a_file_that_was_cut_off(served: Hub, tmp_path: Path) -> None:
    served.faults["parts/model.safetensors"] = "gone"
    with refused("EPS-C087"):
        fetch(MODEL, everything)
    (file,) = (file for file in recorded(MODEL) or [] if file.name != "config.json")
    partial = next(tmp_path.rglob("blobs")) / f"{file.hash}.incomplete"
    partial.write_bytes(WEIGHTS[:1234])  # as a killed process would leave it
    there = state(MODEL)
    assert (there.here, there.begun, there.whole) == (2, 1234, False)
    served.faults.clear()
    fetch(MODEL, everything)
    assert served.requests[-1] == ("parts/model.safetensors", 1234)
    assert state(MODEL).whole
    assert not partial.exists()


def test_a_begun_file_of_other_bytes_is_not_taken_for_the_right_one(served: Hub, tmp_path: Path) -> None:
    fetch(MODEL, everything)
    (file,) = (file for file in recorded(MODEL) or [] if file.name != "config.json")
    blob = next(tmp_path.rglob("blobs")) / file.hash
    blob.rename(blob.with_name(f"{file.hash}.incomplete")).write_bytes(b"x" * 100)
    with refused("EPS-C082"):
        fetch(MODEL, everything)
    fetch(MODEL, everything)  # downloads again from the beginning
    assert blob.read_bytes() == WEIGHTS


def test_other_bytes_than_the_commit_states_are_refused_and_deleted(served: Hub, tmp_path: Path) -> None:
    served.faults["parts/model.safetensors"] = "other bytes"
    with refused("EPS-C082"):
        fetch(MODEL, everything)
    assert blobs(tmp_path, ".incomplete") == []
    assert not state(MODEL).whole


def test_a_file_that_was_damaged_here_is_fetched_anew(served: Hub) -> None:
    place = fetch(MODEL, everything) / "parts/model.safetensors"
    place.write_bytes(WEIGHTS[:-1] + b"\0")  # wrong bytes, but the right size
    assert (fetch(MODEL, everything) / "parts/model.safetensors").read_bytes() == WEIGHTS
    place.write_bytes(WEIGHTS[:100])
    assert not state(MODEL).whole
    assert (fetch(MODEL, everything) / "parts/model.safetensors").read_bytes() == WEIGHTS


def test_gated_repositories_say_what_to_do(served: Hub) -> None:
    served.gated.add("models/nobody/words")
    with refused("EPS-C084"):
        fetch(MODEL, everything)


@pytest.mark.parametrize(
    ("repository", "refusal"),
    [
        (Repository("model", "nobody/nothing", COMMIT), ("EPS-C086",)),
        (Repository("model", "nobody/words", "f" * 40), ("EPS-C085",)),
        (Repository("dataset", "nobody/words", COMMIT), ("EPS-C086", "nobody/words@0123")),
    ],
)
def test_what_the_hub_does_not_have(served: Hub, repository: Repository, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        fetch(repository, everything)


def test_too_small_a_disk_is_said_before_anything_comes(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("epsilometer.runtime.hub.shutil.disk_usage", lambda _: usage)
    with refused("EPS-C083", "512", "5", "1"):
        fetch(MODEL, everything)
    assert served.requests == []


def test_without_a_network_it_says_where_to_run(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused("EPS-C087", "--fetch", "HF_HUB_OFFLINE"):
        fetch(MODEL, everything)


def test_a_name_that_leads_out_of_the_cache_is_refused(served: Hub, tmp_path: Path) -> None:
    served.files["models/nobody/words"]["../../../../evil.json"] = b"x"
    with refused("EPS-C081"):
        fetch(MODEL, everything)
    assert not list(tmp_path.rglob("evil.json"))
