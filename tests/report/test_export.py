"""Estimates for papers and spreadsheets, and two audits side by side."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from epsilometer.auditing.claims import NO_CLAIM, NOT_REFUTED, VIOLATED
from epsilometer.auditing.diagnostics import CHOSEN
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT, EXACT_CURVES
from epsilometer.cli import app as cli
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.project.paths import curves_path, exact_path
from epsilometer.report import export
from tests.support.audited import HOSTILE, checks, frame

ROWS = (
    ("queries", "mvc", 0.0001, "embedding", 700, 990.0, NOT_REFUTED),
    ("queries", "mvc", 5.0, "length", 1000, 900.0, NOT_REFUTED),
    ("queries", "id_1", 1.0, "length", 500, None, NO_CLAIM),
)
BROKEN = {"mechanism": "mvc", "epsilon": 5.0, "claim": "5 per word", "verdict": VIOLATED, "method": "exact"}


def run(folder: Path, estimates: pl.DataFrame, claims: pl.DataFrame | None = None) -> Path:
    """The folder of an audit."""
    tables.write(estimates, folder / "data/estimates.parquet", ESTIMATES)
    tables.write(checks() if claims is None else claims, folder / "data/claims.parquet", CLAIMS)
    return folder


def test_all_columns_and_the_one_verdict_of_the_claim(tmp_path: Path) -> None:
    estimates = frame(*ROWS)
    found = export.read(run(tmp_path, estimates, checks(BROKEN)))
    assert found.columns == [*ESTIMATES, "overall"]
    assert found.drop("overall").equals(estimates)
    at_five = found.filter(pl.col("epsilon") == 5.0)
    assert set(at_five["verdict"]) == {NOT_REFUTED}  # of the test
    assert set(at_five["overall"]) == {VIOLATED}  # of the claim, which the exact check refutes
    with pytest.raises(UserError, match=r"estimates.parquet does not exist; `dvc repro` makes it"):
        export.read(tmp_path / "nowhere")


def exact(average: float, pairs: str = "equal length", **more: object) -> pl.DataFrame:
    """A row of the exact losses, known to within .01."""
    ends = {"average_low": average - 0.01, "average": average, "average_high": average + 0.01}
    named = {"dataset": "queries", "mechanism": "mvc", "epsilon": 5.0, "pairs": pairs}
    return pl.DataFrame([named | ends | more], schema=dict(EXACT))


def test_exact_losses_are_read_without_their_curves_and_judge_claims(tmp_path: Path) -> None:
    folder = run(tmp_path, frame(*ROWS))
    assert export.read_exact(folder).is_empty()  # an audit from before there were any
    table = exact(3.0, claim="5 per word", verdict=VIOLATED)
    tables.write(table, folder / exact_path("queries-mvc"), EXACT)
    tables.write(pl.DataFrame(schema=dict(EXACT_CURVES)), folder / curves_path("queries-mvc"), EXACT_CURVES)
    assert export.read_exact(folder).equals(table)
    found = export.read(folder)
    assert set(found.filter(epsilon=5.0)["overall"]) == {VIOLATED}
    assert set(found.filter(epsilon=0.0001)["overall"]) == {NOT_REFUTED}


def test_exact_losses_side_by_side() -> None:
    """They are apart where their errors do not meet."""
    one, other = pl.concat([exact(3.0), exact(math.inf, "all")]), exact(3.015)
    both = export.compare_exact(one, other)
    assert both.select("pairs", "average_1", "average_2", "apart").rows() == [
        ("all", math.inf, None, None),
        ("equal length", 3.0, 3.015, False),
    ]
    assert both["change"].to_list() == [None, pytest.approx(0.015)]
    assert export.compare_exact(exact(3.0), exact(3.03))["apart"].to_list() == [True]


def test_csv_and_json_hold_every_digit(tmp_path: Path) -> None:
    table = frame(*ROWS)
    export.write(table, tmp_path / "all.csv")
    again = pl.read_csv(tmp_path / "all.csv", schema=dict(ESTIMATES))
    assert again.equals(table)
    export.write(table, tmp_path / "all.json")
    rows = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert [row["loss"] for row in rows] == table["loss"].to_list()
    assert None in [row["point"] for row in rows]  # all 1,000 were right: infinite
    assert math.inf in table["point"]


def test_markdown_and_latex_are_tables_whatever_the_names(tmp_path: Path) -> None:
    table = export.chosen(frame(*ROWS), ["mechanism", "epsilon", "loss", "claim", "p_value"]).head(2)
    export.write(table, tmp_path / "some.md")
    markdown = (tmp_path / "some.md").read_text(encoding="utf-8").splitlines()
    assert len(markdown) == 4
    assert [cell.strip() for cell in markdown[2].strip("|").split("|")][:2] == ["mvc", "0.0001"]
    assert all(line.count("|") == 6 for line in markdown)
    named = table.with_columns(mechanism=pl.lit("50%_a&b $x$"))
    export.write(named, tmp_path / "some.tex")
    latex = (tmp_path / "some.tex").read_text(encoding="utf-8")
    assert latex.startswith("\\begin{tabular}{lrrlr}\n\\toprule")
    assert "50\\%\\_a\\&b \\$x\\$" in latex
    assert "p\\_value" in latex
    piped = table.with_columns(mechanism=pl.lit("a|b"))
    export.write(piped, tmp_path / "piped.md")
    line = (tmp_path / "piped.md").read_text(encoding="utf-8").splitlines()[2]
    assert line.replace("\\|", "").count("|") == 6


def test_other_formats_and_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in .csv, .json, .md, .tex, got 'x.xls'"):
        export.write(frame(*ROWS), tmp_path / "x.xls")
    with pytest.raises(UserError, match=r"'los'.*loss"):
        export.chosen(frame(*ROWS), ["los"])
    assert not list(tmp_path.iterdir())


def test_two_audits_stand_side_by_side() -> None:
    one = frame(*ROWS).filter(~pl.col("attack").is_in(CHOSEN))
    other = frame(("queries", "mvc", 0.0001, "embedding", 990, 990.0, VIOLATED), ROWS[2], ("new", *ROWS[2][1:]))
    both = export.compare(one, other.filter(~pl.col("attack").is_in(CHOSEN)))
    assert both.select("dataset", "mechanism", "epsilon").rows() == [
        ("new", "id_1", 1.0),
        ("queries", "id_1", 1.0),
        ("queries", "mvc", 0.0001),
        ("queries", "mvc", 5.0),
    ]
    new, same, worse, gone = both.to_dicts()
    assert (new["loss_1"], new["change"], new["apart"]) == (None, None, None)
    assert (same["change"], same["apart"]) == (0.0, False)
    assert worse["change"] == pytest.approx(math.log(99) - math.log(700 / 300))
    assert (worse["apart"], worse["verdict_1"], worse["verdict_2"]) == (True, NOT_REFUTED, VIOLATED)
    assert gone["trials_2"] is None


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(tmp_path / "one", frame(*ROWS), checks(BROKEN))
    second = run(tmp_path / "two", frame(*ROWS, ("queries", HOSTILE, 1.0, "length", 600, None, NO_CLAIM)))
    monkeypatch.chdir(first)
    runner = CliRunner()
    done = runner.invoke(cli.app, ["export", "here.csv", "--columns", "mechanism,overall"])
    assert done.exit_code == 0, done.output
    assert pl.read_csv("here.csv").columns == ["mechanism", "overall"]
    assert runner.invoke(cli.app, ["export", "two.tex", "--run", str(second)]).exit_code == 0
    assert "\\bottomrule" in Path("two.tex").read_text(encoding="utf-8")
    shown = runner.invoke(cli.app, ["diff", ".", str(second)])
    assert shown.exit_code == 0, shown.output
    assert "loss_1" in shown.output
    assert "apart" in shown.output
    assert runner.invoke(cli.app, ["diff", ".", str(second), "--out", "both.md"]).exit_code == 0
    assert "claim_2" in Path("both.md").read_text(encoding="utf-8")
    for folder, average in ((first, 3.0), (second, 4.0)):
        tables.write(exact(average), folder / exact_path("queries-mvc"), EXACT)
    shown = runner.invoke(cli.app, ["diff", ".", str(second), "--exact", "--json"])
    (row,) = json.loads(shown.output)
    assert (row["average_1"], row["average_2"], row["change"], row["apart"]) == (3.0, 4.0, 1.0, True)
    assert runner.invoke(cli.app, ["export", "exact.csv", "--exact", "--columns", "pairs,average"]).exit_code == 0
    assert pl.read_csv("exact.csv").rows() == [("equal length", 3.0)]
    rows = json.loads(runner.invoke(cli.app, ["diff", ".", str(second), "--json"]).output, parse_constant=pytest.fail)
    assert len(rows) == len(frame(*ROWS)) + 3
