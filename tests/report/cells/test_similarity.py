"""What rewrites keep: distributions, means, and identifiers that survive."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.cells.params import Utility
from epsilometer.report.cells import similarity, survivors
from epsilometer.report.cells.similarity import closeness, distributions
from tests.support.audited import HOSTILE, audit, settings
from tests.support.similarities import COSINES, each, leakage, similarity_tables


def test_distributions_hold_every_text_once() -> None:
    figure = distributions(each(), "queries", ["identity", HOSTILE])
    key = f"queries cosine {HOSTILE}"
    marks = figure["datasets"][f"marks {key}"]
    assert [(mark["label"], mark["lower"], mark["median"], mark["upper"], mark["texts"]) for mark in marks] == [
        ("0.5", 0.3, 0.5, 0.7, 5),
        ("5", 0.3, 0.5, 0.7, 5),
    ]
    shapes = [shape for shape in figure["datasets"][f"shapes {key}"] if -0.5 < shape["left"] < 0.5]
    assert len(shapes) == 5
    assert all(any(shape["low"] - 1e-9 <= c <= shape["high"] + 1e-9 for c in COSINES) for shape in shapes)
    assert {round(shape["right"] - shape["left"], 6) for shape in shapes} == {0.84}
    # Perplexities from 10 to 100,000 have a logarithmic axis; the null value is left out.
    panel = next(p for p in figure["vconcat"][0]["concat"] if "perplexity" in p["layer"][0]["data"]["name"])
    assert panel["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"
    assert figure["datasets"][f"marks queries perplexity {HOSTILE}"][0]["texts"] == 4


def test_many_mechanisms_stand_in_several_rows() -> None:
    table = pl.concat(each().with_columns(mechanism=pl.lit(f"m{i:02}")) for i in range(11))
    groups = distributions(table, "queries", [f"m{i:02}" for i in range(11)])["vconcat"]
    assert [group["columns"] for group in groups] == [8, 3]


def test_means_have_their_intervals() -> None:
    table = closeness(each(), 0.01)
    row = next(row for row in table.rows if row["mechanism"] == HOSTILE)
    mean, low, high = mean_interval(COSINES, range(5), 0.01)
    assert row["cosine"] == f"{mean:.3f} ({low:.3f} to {high:.3f})"
    assert "99 %" in table.caption
    assert table.columns[-1] == "perplexity"


def test_two_metrics_are_drawn_and_all_are_in_the_file() -> None:
    results = audit(settings(utility=Utility(metrics={"perplexity": {}, "bleu": {}})), **similarity_tables())
    section = similarity.section(results)
    assert section is not None
    assert [figure.name for figure in section.figures] == ["kept-queries"]
    metrics = {name.split()[2] for name in section.figures[0].specification["datasets"]}
    assert metrics == {"cosine", "perplexity"}
    (means,) = section.tables
    assert means.in_results
    assert means.off_page


def test_leaks_are_tables_by_data_set_and_the_worst_kind_is_in_the_matrix() -> None:
    (table,) = survivors.identifiers(leakage())
    assert [row["name (20)"].split()[0] for row in table.rows] == ["0", "5", "20"]
    assert "20, 15 recorded in the corpus" in survivors.leak_sentence("queries", leakage())
    assert list(survivors.identifiers(leakage().clear())) == []
    (matrix,) = survivors.matrices(leakage())
    assert [row["mechanism"] for row in matrix.rows] == [HOSTILE, "identity"]
    assert (
        matrix.rows[0]["budget 2"].replace("\N{NO-BREAK SPACE}", " ")
        == "ε 5: names 5 of 20; up to 56 % cannot be ruled out"
    )


def test_what_patterns_found_is_a_lower_end_or_not_testable() -> None:
    by_patterns = leakage().with_columns(recorded=pl.lit(0))
    (table,), (matrix,) = survivors.identifiers(by_patterns), survivors.matrices(by_patterns)
    assert [row["name (20)"] for row in table.rows] == ["0 of 20", "5 of 20", "20 of 20"]
    cells = [matrix.rows[0]["budget 1"], matrix.rows[0]["budget 2"]]
    assert [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells] == [
        "ε 0.5: not testable: names", "ε 5: at least 5 of 20 names",
    ]  # fmt: skip
    assert "what a masker with the same patterns misses" in survivors.leak_sentence("queries", by_patterns)
    recorded = leakage().with_columns(recorded=pl.col("identifiers"))
    assert "20, all recorded in the corpus" in survivors.leak_sentence("queries", recorded)


def test_without_identifiers_there_is_no_section_on_them() -> None:
    assert survivors.section(audit()) is None
    assert survivors.section(audit(**similarity_tables())) is not None


def test_without_rewrites_that_were_compared_there_is_no_section() -> None:
    assert similarity.section(audit()) is None
