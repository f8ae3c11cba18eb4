"""The archived tables of a run equal those that were written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from epsilometer.report import archive
from epsilometer.report.archive import Grid, Run
from tests.support.places import ROOT
from tests.support.refusals import refused

LOSSES = Grid(
    "Losses on queries: all",
    ["mechanism", "loss, nats", ""],
    [["tem", "0.1 to 0.2", ""], ["a | b", 'of "one"\nline', "–"], ["", "", ""]],
    caption="k = 2.",
    picture="losses.svg",
    note="Every guess counts.",
)
RUN = Run(
    "mine: A run",
    command="epsilometer results tables",
    profile="mine",
    date="2026-11-30",
    commit="abc",
    hardware="2 cores",
    stages=3,
    minutes=4,
    about=["About."],
    tables=[LOSSES],
)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    archive.write(RUN, tmp_path, {"losses.svg": "<svg/>"})
    assert archive.read(tmp_path) == RUN
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "losses.svg", "losses-on-queries-all.csv"}


def test_a_large_table_is_parquet(tmp_path: Path) -> None:
    rows = [[f"row {number}", "0.1 to 0.2 " * 20] for number in range(500)]
    run = replace(RUN, tables=[Grid("Large", ["mechanism", "loss"], rows), LOSSES])
    archive.write(run, tmp_path)
    assert (tmp_path / "large.parquet").is_file()
    assert archive.read(tmp_path) == run
    assert archive.file(tmp_path.parent, f"{tmp_path.name}/large.csv") == tmp_path / "large.parquet"
    assert archive.file(tmp_path.parent, f"{tmp_path.name}/small") is None


def test_tables_of_the_run_before_are_deleted(tmp_path: Path) -> None:
    archive.write(RUN, tmp_path)
    archive.write(replace(RUN, tables=[replace(LOSSES, heading="Gains")]), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "gains.csv"}


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    with refused("EPS-R024", "losses-on-queries-all"):
        archive.write(replace(RUN, tables=[LOSSES, replace(LOSSES, heading="Losses on queries, all")]), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_or_damaged_run_is_named(tmp_path: Path) -> None:
    with refused("EPS-R025", "run.json"):
        archive.read(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with refused("EPS-R026", "run.json"):
        archive.read(tmp_path)


def test_the_page_of_a_run_has_its_facts_and_every_cell() -> None:
    page = archive.page(RUN)
    assert "2026-11-30 · profile mine · commit abc · 2 cores. 3 stages took 4 minutes of processor time." in page
    assert '| a \\| b | of "one" line | – |' in page, "a cell stays on one line of Markdown"
    assert "![Losses on queries: all](losses.svg)" in page
    for said in ("About.", "k = 2.", "Every guess counts."):
        assert said in page


@pytest.mark.parametrize("folder", sorted((ROOT / "results").iterdir()), ids=lambda folder: folder.name)
def test_a_folder_of_results_has_what_its_run_lists_and_no_more(folder: Path) -> None:
    run = archive.read(folder)
    listed = {entry[name] for entry in json.loads((folder / "run.json").read_text())["tables"] for name in entry}
    assert {path.name for path in folder.iterdir()} - {"run.json"} <= listed | {"truth.svg"}
    assert run.tables
    for grid in run.tables:
        assert grid.rows
        assert {len(row) for row in grid.rows} == {len(grid.columns)}
        assert not grid.picture or (folder / grid.picture).is_file()
