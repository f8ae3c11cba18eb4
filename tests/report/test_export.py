"""Tables of an audit for papers and spreadsheets."""

from __future__ import annotations

import json
import math
import re
from io import StringIO
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, VIOLATED
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT, EXACT_CURVES
from epsilometer.cells.tables import curves_path, exact_path
from epsilometer.core import tables
from epsilometer.core.rounding import cell
from epsilometer.report import export
from tests.support.audited import HOSTILE, checks, frame
from tests.support.commands import call
from tests.support.commands import run as run_command
from tests.support.refusals import refused

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
    table = export.read(run(tmp_path, estimates, checks(BROKEN)))
    assert table.columns == [*ESTIMATES, "overall", "overall_by"]
    assert table.drop("overall", "overall_by").equals(estimates)
    at_five = table.filter(pl.col("epsilon") == 5.0)
    assert set(at_five["verdict"]) == {NOT_REFUTED}  # verdict of the test
    assert set(at_five["overall"]) == {VIOLATED}  # verdict on the claim, which the exact check refutes
    with refused("EPS-C001"):
        export.read(tmp_path / "nowhere")


def exact(average: float, pairs: str = "equal length", **more: object) -> pl.DataFrame:
    """A row of the exact losses, known to within .01."""
    ends = {"average_low": average - 0.01, "average": average, "average_high": average + 0.01}
    named = {"dataset": "queries", "mechanism": "mvc", "epsilon": 5.0, "pairs": pairs}
    return pl.DataFrame([named | ends | more], schema=dict(EXACT))


def test_exact_losses_are_read_without_their_curves_and_judge_claims(tmp_path: Path) -> None:
    folder = run(tmp_path, frame(*ROWS))
    assert export.read_exact(folder).is_empty()  # an audit from before exact losses existed
    table = exact(3.0, claim="5 per word", verdict=VIOLATED)
    tables.write(table, folder / exact_path("queries-mvc"), EXACT)
    tables.write(pl.DataFrame(schema=dict(EXACT_CURVES)), folder / curves_path("queries-mvc"), EXACT_CURVES)
    assert export.read_exact(folder).equals(table)
    losses = export.read(folder)
    assert set(losses.filter(epsilon=5.0)["overall"]) == {VIOLATED}
    assert set(losses.filter(epsilon=0.0001)["overall"]) == {NOT_REFUTED}


def test_csv_and_json_hold_every_digit(tmp_path: Path) -> None:
    table = frame(*ROWS)
    export.write(table, tmp_path / "all.csv")
    again = pl.read_csv(tmp_path / "all.csv", schema=dict(ESTIMATES))
    assert again.equals(table)
    export.write(table, tmp_path / "all.json")
    rows = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert [row["loss"] for row in rows] == table["loss"].to_list()
    assert "Infinity" in [row["point"] for row in rows]  # all 1,000 are right, and JSON has no infinity
    assert math.inf in table["point"]


def test_markdown_and_latex_are_tables_whatever_the_names(tmp_path: Path) -> None:
    table = frame(*ROWS).select("mechanism", "epsilon", "loss", "claim", "p_value").head(2)
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


def test_papers_get_bounds_that_stay_true() -> None:
    """900 of 1,000 right, and 1,000 of 1,000, which is the ceiling."""
    table = frame(*ROWS)
    columns = ["epsilon", "loss", "upper"]
    losses = {epsilon: (loss, upper) for epsilon, loss, upper in table.select(columns).iter_rows()}
    lines = export.rendered(table, ".md", columns).splitlines()[2:]
    cells = {float(a): (b.strip(), c.strip()) for a, b, c in (line.strip("|").split("|") for line in lines)}
    assert cells[5.0][0].startswith("≥ ")
    assert cells[5.0][1] == "∞"
    assert float(cells[0.0001][0]) <= losses[0.0001][0]
    assert float(cells[0.0001][1]) >= losses[0.0001][1]
    latex = export.rendered(table, ".tex", columns)
    assert "$\\geq$ " in latex
    assert "$\\infty$" in latex
    assert "≥" not in latex


def test_other_formats_and_columns_are_refused(tmp_path: Path) -> None:
    with refused("EPS-R017", "x.xls"):
        export.write(frame(*ROWS), tmp_path / "x.xls")
    assert not list(tmp_path.iterdir())


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(tmp_path / "one", frame(*ROWS), checks(BROKEN))
    second = run(tmp_path / "two", frame(*ROWS, ("queries", HOSTILE, 1.0, "length", 600, None, NO_CLAIM)))
    monkeypatch.chdir(first)
    assert run_command("results", "export", "here.csv", "--columns", "mechanism,overall") == 0
    assert pl.read_csv("here.csv").columns == ["mechanism", "overall"]
    assert run_command("results", "export", "two.tex", "--run", str(second)) == 0
    assert "\\bottomrule" in Path("two.tex").read_text(encoding="utf-8")
    capsys.readouterr()
    assert pl.read_csv(StringIO(call(capsys, "results", "export", "--format", "csv")[1])).columns == [*export.SHORT]
    assert "delta_at_4_low" in export.SHORT  # every loss is shown with its tail
    _, everything, _ = call(capsys, "results", "export", "--format", "csv", "--columns", "all")
    assert pl.read_csv(StringIO(everything)).columns == [*ESTIMATES, "overall", "overall_by"]
    _, printed, _ = call(
        capsys, "results", "export", "--format", "md", "--table", "claims", "--columns", "mechanism,verdict"
    )
    assert printed.splitlines()[2].split() == ["|", "mvc", "|", VIOLATED, "|"]
    assert run_command("results", "export", "rows.txt", "--format", "json", "--run", str(second)) == 0
    assert len(json.loads(Path("rows.txt").read_text())) == len(export.read(second))
    tables.write(exact(3.0), first / exact_path("queries-mvc"), EXACT)
    capsys.readouterr()
    _, printed, _ = call(
        capsys, "results", "export", "--format", "csv", "--table", "exact", "--columns", "pairs,average"
    )
    assert printed == "pairs,average\nequal length,3.0\n"


def test_rows_of_mechanisms_attacks_and_epsilons(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(run(tmp_path, frame(*ROWS)))

    def exported(*words: str) -> list[dict[str, str]]:
        _, out, _ = call(capsys, "results", "export", "--format", "json", *words)
        return json.loads(out)

    assert {row["mechanism"] for row in exported("--mechanism", "mvc")} == {"mvc"}
    assert {row["mechanism"] for row in exported("--mechanism", "mvc", "--mechanism", "id_1")} == {"mvc", "id_1"}
    assert [row["epsilon"] for row in exported("--attack", "length", "--epsilons", "1,5")] == [5.0, 1.0]
    (row,) = exported("--epsilons", "1", "--attack", "length", "--columns", "loss,point,upper,interval")
    assert row["interval"] == cell(row["point"], row["loss"], row["upper"])


def test_losses_for_a_paper_have_their_bounds_in_one_cell(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(run(tmp_path, frame(*ROWS)))
    _, out, _ = call(capsys, "results", "export", "--format", "md")
    heads, _, *lines = [[part.strip() for part in line.strip("|").split("|")] for line in out.splitlines()]
    assert heads == [*export.SHORT_MARKUP]
    at = heads.index("interval")
    assert re.fullmatch(r"\.8\d \[\.\d+, (\d?\.)?\d+\]", lines[0][at])
    assert re.fullmatch(r"∞ \[\d\.\d+, ∞\]", lines[1][at])
    _, out, _ = call(capsys, "results", "export", "--format", "tex")
    assert r"$\infty$ [" in out
    none = frame(*ROWS).with_columns(ceiling=0.0)
    assert {*export.with_intervals(none)["interval"]} == {"not testable"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a FILE, or a --format (csv, json, md, tex) to print"),
        (("--format", "latex"), "unknown --format 'latex'"),
        (("--format", "csv", "--table", "claim"), "unknown table 'claim'; did you mean 'claims'"),
        (("--format", "csv", "--table", "leakage"), "has no table 'leakage'; it has estimates, claims"),
        (("--format", "csv", "--run", "absent"), "does not exist"),
        (("--format", "csv", "--mechanism", "mvcc"), "unknown mechanism 'mvcc'; did you mean 'mvc'"),
        (("--format", "csv", "--epsilons", "5,six"), "--epsilons must be numbers separated by commas, got 'six'"),
        (("--format", "csv", "--epsilons", "6"), "unknown epsilon '6.0'"),
        (("--format", "csv", "--mechanism", "id_1", "--epsilons", "5"), "unknown epsilon '5.0'"),
        (("--format", "csv", "--table", "claims", "--attack", "length"), "no column 'attack' to filter by"),
        (("--format", "csv", "--columns", "los"), "unknown column 'los'; did you mean 'loss'"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path, monkeypatch, capsys, words, message) -> None:
    monkeypatch.chdir(run(tmp_path, frame(*ROWS)))
    code, out, error = call(capsys, "results", "export", *words)
    assert (code, out) == (2, "")
    assert message in error


def test_tables_of_all_cells_without_those_beside_them(tmp_path: Path) -> None:
    """Lists are in JSON alone, as no cell of another format can hold them."""
    for letter in ("a", "b"):
        for name in ("attackers", "outcomes"):
            table = pl.DataFrame({"cell": [letter], "hits": [[True, False]]})
            tables.write(table, tmp_path / f"data/anonymity/{letter}/{name}.parquet", table.schema)
        tables.write(table, tmp_path / f"data/membership/{letter}.parquet", table.schema)
        tables.write(table.head(0), tmp_path / f"data/membership/{letter}.rates.parquet", table.schema)
    both = export.read_table(tmp_path, "attackers")
    assert both["cell"].to_list() == export.read_table(tmp_path, "membership")["cell"].to_list() == ["a", "b"]
    assert export.rendered(both, ".csv") == "cell\na\nb\n"
    assert json.loads(export.rendered(both, ".json"))[1] == {"cell": "b", "hits": [True, False]}
