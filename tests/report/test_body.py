"""The body of the report and its figures."""

from __future__ import annotations

from pathlib import Path

from epsilometer.report.body import Body, build


def test_a_page_without_figures_has_their_folder_which_the_stage_promises(tmp_path: Path) -> None:
    build(Body("attackers alone", [], [], [], []), tmp_path / "report.html", tmp_path / "figures")
    assert (tmp_path / "figures").is_dir()
