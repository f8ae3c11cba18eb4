"""The report's section on what rewrites keep: quartiles, distributions, means, leakage, and texts that stay texts."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.report.wording import metric_value
from epsilometer.studies.texts.report import similarity
from epsilometer.studies.texts.report.similarity import (
    closeness,
    distributions,
    examples,
    leak_sentence,
    quartiles,
    with_texts,
)
from tests.support.audited import HOSTILE, audit, settings, shown, text_of
from tests.support.html import Elements
from tests.support.similarities import COSINES, each, leakage, similarity_tables


def test_quartiles_are_trials() -> None:
    table = quartiles(each())
    assert table.filter(mechanism=HOSTILE, epsilon=5.0).select("quarter", "trial").rows() == [
        (0.25, 3),
        (0.5, 2),
        (0.75, 4),
    ]
    assert table.filter(mechanism="identity")["trial"].to_list() == [1, 2, 3]  # equal cosines: in their order
    first = quartiles(each().filter(trial=1))
    assert first["trial"].to_list() == [1] * 9
    assert quartiles(each().clear()).is_empty()


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
    # Perplexities from 10 to 100,000 stand on a logarithmic axis; the null is left out.
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


def test_leaks_are_tables_by_data_set() -> None:
    (table,) = similarity.identifiers(leakage())
    assert [row["name (20)"].split()[0] for row in table.rows] == ["0%", "25%", "100%"]
    said = leak_sentence("queries", leakage())
    assert "of 20 identifiers (15 on the corpus's record" in said
    assert f"{HOSTILE} 0.0 % to 25.0 %, identity 100.0 %." in said.replace("\N{NO-BREAK SPACE}", " ")
    assert list(similarity.identifiers(leakage().clear())) == []


def test_examples_carry_all_values_and_stay_on_the_page() -> None:
    first, *others = examples(each(), with_texts(quartiles(each()), audit()))
    assert {row["epsilon"] for row in first.rows} == {"0.5", "5"}
    assert first.rows[0]["values"] == "cosine 0.30, perplexity 10,000"
    assert not any(table.in_markdown for table in (first, *others)), "they hold texts"
    assert [metric_value(value) for value in (None, 0.5, -0.25, 12345.6)] == ["–", "0.50", "-0.25", "12,346"]


def test_the_section_trusts_no_text_and_shows_all() -> None:
    results = audit(**similarity_tables())
    section = similarity.section(results)
    assert section is not None
    html = shown(section, results)
    page = Elements(html)
    text = "".join(page.text)
    assert HOSTILE in text
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert "(empty)" in text
    assert "25% (" in text
    assert "15 on the corpus's record" in text
    assert [figure.name for figure in section.figures] == ["kept-queries"]


def test_texts_of_private_data_are_left_out() -> None:
    private = {name: dataset.model_copy(update={"public": False}) for name, dataset in settings().datasets.items()}
    results = audit(settings(datasets=private), **similarity_tables())
    assert with_texts(quartiles(each()), results).is_empty()
    assert "Texts at the quartiles" not in text_of(similarity.section(results), results)


def test_without_rewrites_that_were_compared_there_is_no_section() -> None:
    assert similarity.section(audit()) is None
