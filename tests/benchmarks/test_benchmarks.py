"""`make bench` computes every table that this machine can."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest
import torch

from benchmarks.__main__ import tables
from tests.support.places import ROOT

NEED_FILES = {
    *("evolution", "examples", "generator", "generator_smollm2", "likeness"),
    *("privrewrite", "release", "release_sets", "similarity"),
}


def test_no_benchmark_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    files = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    assert files - {*tables()} == NEED_FILES
    assert not {*tables()} - files


@pytest.mark.parametrize("name", tables())
def test_a_table_needs_no_arguments(name: str) -> None:
    main = import_module(f"benchmarks.{name}").main
    needed = [
        p for p in inspect.signature(main).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
    ]
    assert not needed
