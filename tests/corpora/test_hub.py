"""Data sets of the hub: the files that their card lists are fetched whole, and read without a network afterwards."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from epsilometer.corpora.hub import Pin, fetch, is_missing, load
from epsilometer.corpora.reading import read
from tests.support.hub import COMMIT, Hub, hub
from tests.support.refusals import refused

CARD = """---
dataset_info:
- config_name: cola
  features:
  - {name: sentence, dtype: string}
  - name: label
    dtype: {class_label: {names: {'0': unacceptable, '1': acceptable}}}
configs:
- config_name: cola
  data_files:
  - {split: train, path: cola/train-*}
  - {split: test, path: [cola/test-*]}
- config_name: other
  data_files: [{split: train, path: other/*}]
---
# Judgements
"""
NAME = "nobody/judgements"


def parquet(rows: int, start: int = 0) -> bytes:
    out = io.BytesIO()
    numbers = range(start, start + rows)
    pl.DataFrame({"sentence": [f"sentence {i}" for i in numbers], "label": [i % 2 for i in numbers]}).write_parquet(out)
    return out.getvalue()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "arrow")
    with hub(tmp_path / ".cache/hub", monkeypatch) as server:
        server.files[f"datasets/{NAME}"] = {
            "README.md": CARD.encode(),
            "judgements.py": b"raise SystemExit",
            "cola/train-0.parquet": parquet(30),
            "cola/test-0.parquet": parquet(4, 100),
            "other/data.parquet": parquet(3),
        }
        yield server


def test_the_configuration_that_is_named_comes_and_is_read_offline(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = Pin(dataset=NAME, config="cola", revision=COMMIT)
    assert is_missing(pin.repository)
    folder = fetch(pin.repository)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert names == ["README.md", "cola/test-0.parquet", "cola/train-0.parquet"]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not is_missing(pin.repository)
    table = load(NAME, "cola", COMMIT)
    assert table["split"].value_counts().sort("split").rows() == [("test", 4), ("train", 30)]
    assert table["label"].to_list()[:2] == ["unacceptable", "acceptable"]
    (folder / "cola/test-0.parquet").unlink()
    assert is_missing(pin.repository)


def test_the_first_rows_are_read_as_a_stream(served: Hub) -> None:
    table = load(NAME, "cola", COMMIT, rows=7)
    assert table.filter(split="train")["sentence"].to_list() == [f"sentence {i}" for i in range(7)]
    assert set(table["label"]) == {"acceptable", "unacceptable"}
    assert len(read(f"{NAME}@v1", "sentence", rows=2)) == 2  # without a configuration: all data of the only one


def test_a_data_set_that_is_a_program_is_refused(served: Hub) -> None:
    served.files[f"datasets/{NAME}"] = {"judgements.py": b"raise SystemExit"}
    with refused("EPS-D033"):
        load(NAME, revision=COMMIT)
    served.files[f"datasets/{NAME}"] = {"README.md": CARD.encode(), "other/data.parquet": parquet(3)}
    with refused("EPS-D033", "cola"):
        load(NAME, "cola", COMMIT)
