"""The mechanism of a cell: its access to the texts of its data set, and that its network reads them once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import TRIALS
from epsilometer.cells import reading as cells
from epsilometer.cells.tables import readings_path
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import Params, params_type
from tests.support.places import ROOT
from tests.support.refusals import refused


def test_an_endpoint_is_shown_public_data_sets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()) | {"root": str(ROOT)}
    entry = {"mechanism": "llm_rewrite", "resource": "nowhere", "settings": {"model": "m", "endpoint": True}}
    settings["cells"]["reviews-llm_rewrite"] = {"dataset": "reviews", **entry}
    public = params_type().model_validate(settings)
    assert cells.mechanism(public, "reviews-llm_rewrite").assistant  # type: ignore[attr-defined]
    settings["datasets"]["reviews"]["public"] = False
    with refused("EPS-N003"):
        cells.mechanism(params_type().model_validate(settings), "reviews-llm_rewrite")


READER = """
import numpy as np
from epsilometer.core.component import component


@component
class Reader:
    def read(self, texts):
        with open("asked", "a") as file:
            print(*texts, sep=",", file=file)
        return np.array([[len(text), len(text.split())] for text in texts], np.float32)

    def recall(self, texts, readings):
        object.__setattr__(self, "recalled", dict(zip(texts, readings.tolist(), strict=True)))

    def rewrite(self, texts, epsilon, noise):
        raise NotImplementedError

    def guarantee(self, epsilon):
        return None
"""


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """Five texts, four of them in trials, and a mechanism that notes which texts it reads."""
    monkeypatch.chdir(tmp_path)
    Path("reader.py").write_text(READER)
    Path("letters.txt").write_text("")
    texts = ["a b", "b c", "unused", "c a b", "d"]
    prepared = {"id": map(str, range(5)), "text": texts, "split": "train", "words": [len(t.split()) for t in texts]}
    tables.write(pl.DataFrame(prepared, schema=dict(PREPARED)), "data/prepared/letters.parquet", PREPARED)
    trials = {"trial": range(3), "candidates": [(0, 1), (3, 4), (1, 0)], "target": [0, 1, 0]}
    tables.write(pl.DataFrame(trials, schema=dict(TRIALS)), "data/trials/letters.parquet", TRIALS)
    settings = {
        "root": ".",
        "audit": {"seed": 0},
        "attacks": {"lexical": {}},
        "datasets": {"letters": {"source": "letters.txt"}},
        "mechanisms": {"reader": (entry := {"mechanism": "reader", "file": "reader.py", "epsilons": [1]})},
        "cells": {"letters-reader": {"dataset": "letters", **entry}},
    }
    return params_type().model_validate(settings)


def test_a_network_reads_the_texts_of_trials_once(reading: Params) -> None:
    first = cells.mechanism(reading, "letters-reader")
    cells.read_once(reading, "letters-reader", first)
    expected = {"a b": [3, 2], "b c": [3, 2], "c a b": [5, 3], "d": [1, 1]}
    assert first.recalled == expected  # type: ignore[attr-defined]
    assert cells.well_read(reading, "letters-reader").recalled == expected  # type: ignore[attr-defined]
    assert Path("asked").read_text() == "a b,b c,c a b,d\n"


def test_readings_of_many_texts_are_not_kept(reading: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_READ", 7)  # the texts of the trials have eight words
    cells.read_once(reading, "letters-reader", cells.mechanism(reading, "letters-reader"))
    assert np.load(readings_path("letters-reader")).size == 0
    assert not hasattr(cells.well_read(reading, "letters-reader"), "recalled")
    assert not Path("asked").exists()
