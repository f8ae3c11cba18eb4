"""Figures on pages equal those of the tables that they cite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epsilometer.report import archive, cited
from epsilometer.report.archive import Grid, Run
from epsilometer.report.cited import Figures
from tests.support.places import ROOT
from tests.support.refusals import refused

LOSSES = Grid(
    "Losses",
    ["mechanism", "epsilon", "loss", "curve"],
    [
        ["tem", "5", "0.1 to 0.2", "1: 0.5, 10: 0.25"],
        ["tem", "11", "1.1 to 1.2", ""],
        ["mvc, slow", "–", "a | b", ""],
    ],
)
FALLS = Grid(
    "Falls",
    ["cell", "attack", "p"],
    [["cola", "rmia", "0.004"], ["cola", "shadow", "0.03"], ["cola", "none", "–"], ["sst2", "rmia", "0.0001"]],
)
AREAS = Grid("Areas", ["noise", "area"], [["none", ".5"]])
PAGE = "At 5 it is [9](../results/mine/losses.csv#tem,+5;+loss) nats.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    archive.write(Run("mine", tables=[LOSSES, FALLS]), tmp_path / "results/mine")
    archive.write(Run("print", tables=[AREAS]), tmp_path / "claims/print")
    return tmp_path


def test_a_figure_is_filled_and_stays(project: Path) -> None:
    filled = cited.filled(PAGE, Figures(project))
    assert filled == PAGE.replace("[9]", "[0.1 to 0.2]")
    assert cited.filled(filled, Figures(project)) == filled


def test_a_link_without_row_and_column_stays(project: Path) -> None:
    for text in ("[all](../results/mine)", "[all](../results/mine/losses.csv)", "[x](../other/losses.csv#tem;+loss)"):
        assert cited.filled(text, Figures(project)) == text


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("mine/losses; mvc, slow; loss", "a | b"),
        ("mine/losses.csv; mvc; loss", "a | b"),
        ("mine/losses; tem, 5; curve; 10", "0.25"),
        ("mine/losses; tem, 5; curve; 1", "0.5"),
        ("mine/falls; cola, rmia; p; Holm, cola", "0.008"),
        ("mine/falls; cola, shadow; p; Holm, cola", "0.03"),
        ("print/areas; none; area", ".5"),
    ],
)
def test_rows_and_values_are_found_by_name(project: Path, reference: str, value: str) -> None:
    assert Figures(project).value(reference) == value


@pytest.mark.parametrize(
    ("reference", "refusal"),
    [
        ("other/losses; tem, 5; loss", ("EPS-R015", "no table other/losses")),
        ("mine/gains; tem, 5; loss", ("EPS-R015", "no table mine/gains")),
        ("mine/losses; tem; loss", ("EPS-R015", "2 rows", "'tem'")),
        ("mine/losses; tem, 1; loss", ("EPS-R015", "0 rows", "'tem, 1'")),
        ("mine/losses; tem, 5; gain", ("EPS-R015", "column 'gain'", "mechanism, epsilon, loss, curve")),
        ("mine/losses; tem, 5; curve; 100", ("EPS-R015", "at 100")),
        ("mine/losses", ("EPS-R015", "column ''")),
    ],
)
def test_a_reference_to_nothing_is_refused(project: Path, reference: str, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Figures(project).value(reference)


def test_the_page_of_results_has_no_figure_of_its_own() -> None:
    """Beside figures from tables, numbers may be settings, in `code`, or what a paper printed, in parentheses."""
    text = (ROOT / "docs/results.md").read_text()
    assert len(cited.FIGURE.findall(text)) > 50
    text = re.sub(r"<!-- verdicts -->.*?<!-- end -->", "", cited.FIGURE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\(printed[^)]*\)|\]\([^)]*\)|\d{4}-\d\d-\d\d|1-Diffractor", "", text)
    assert not re.findall(r"(?<![\w-])[.\d]*\d(?![\w-])", text)
