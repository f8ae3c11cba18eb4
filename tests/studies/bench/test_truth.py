"""The truth bench's page and picture."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl

from epsilometer.report import archive
from epsilometer.studies.bench.bench import TRUTH
from epsilometer.studies.bench.report import figure, write


def row(mechanism: str, estimator: str, **more: float) -> dict[str, object]:
    facts = {name: 0.5 for name, kind in TRUTH.items() if kind == pl.Float64}
    counts = {"samples": 1000, "seeds": 20, "above": 0}
    return {**facts, **counts, "mechanism": mechanism, "origin": "a paper", "estimator": estimator, **more}


def table() -> pl.DataFrame:
    rows = [
        row("open|door", "success rate", pure=math.inf, bound=0.25, above=2, coverage=0.9),
        row("open|door", "abstention", pure=math.inf, bound=3.5, coverage=1.0),
        row("shut", "success rate", pure=0.0, bound=0.0, coverage=1.0),
        row("shut", "abstention", pure=0.0, bound=0.0, coverage=1.0),
    ]
    return pl.DataFrame(rows, TRUTH)


def test_a_line_a_mechanism_with_bounds_and_coverage(tmp_path: Path) -> None:
    write(table(), tmp_path)
    page = archive.page(archive.read(tmp_path))
    assert "0.250 (0.9)" in page
    assert "3.500 (1)" in page
    assert "success rate 2 of 40, abstention 0 of 40" in page
    assert (tmp_path / "truth.svg").read_text().count("open|door") >= 1
    assert {file.name for file in tmp_path.iterdir()} == {"run.json", "1-000-samples-20-seeds.csv", "truth.svg"}


def test_what_is_infinite_stands_at_the_edge() -> None:
    data = figure(table()).specification["datasets"]
    assert max(line["loss"] for line in data["truths"]) == 12
    assert {line["mechanism"] for line in data["bounds"]} == {"open|door", "shut"}
