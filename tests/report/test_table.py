"""Tables: the meaning of their columns, and the same rows on the page and in Markdown."""

from __future__ import annotations

import re

import polars as pl
from markupsafe import Markup

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.report import archive
from epsilometer.report.environment import show
from epsilometer.report.section import Section
from epsilometer.report.table import Table, record, records

HOSTILE = "<b>a|b</b>"


def html(table: Table) -> str:
    return show(Section("id", "link", "heading", blocks=[table]))


def test_a_cell_is_its_format_of_the_row_and_a_dash_where_a_value_is_missing() -> None:
    row = {"epsilon": 2500.0, "loss": 1.239, "right": 3, "of": None, "share": 0.25, "name": "levels: a"}
    columns = "epsilon: {epsilon:budget} | loss: {loss:proved} nats | right: {right} of {of:,} | a: b: {share:.0%}"
    assert record(row, columns) == {"epsilon": "2,500", "loss": "1.23 nats", "right": "–", "a: b": "25%"}
    assert record(row, "what: {name}") == {"what": "levels: a"}


def test_a_frame_has_a_record_a_row() -> None:
    frame = pl.DataFrame({"k": [1, 2], "x": [None, 0.5]})
    assert records(frame, "k: {k} | x: {x:.1f}") == [{"k": "1", "x": "–"}, {"k": "2", "x": "0.5"}]
    assert records(frame.clear(), "k: {k}") == []


def test_both_renderings_have_all_rows_and_columns_and_trust_no_name() -> None:
    rows = [{"mechanism": HOSTILE, "loss": "0.5"}, {"mechanism": "tem", "claim": NOT_REFUTED}]
    table = Table("Losses", "In nats.", rows)
    grid = table.grid()
    assert (grid.heading, grid.caption, grid.columns) == ("Losses", "In nats.", ["mechanism", "loss", "claim"])
    text = archive.markdown(grid.columns, grid.rows)
    assert "<b>a\\|b</b>" in text
    page = html(table)
    assert "&lt;b&gt;a|b&lt;/b&gt;" in page
    for shown in (text, page):
        assert shown.count("tem") == 1
        assert NOT_REFUTED in shown


def test_what_holds_texts_or_is_of_the_page_alone_is_not_in_results() -> None:
    rows = [{"a": "1"}]
    assert Table("", "", rows).in_results
    assert not Table("", "", []).in_results
    assert not Table("", "", rows, texts=True).in_results
    assert not Table("", "", rows, page_only=True).in_results
    assert html(Table("absent", "", [])).count("absent") == 0


def test_a_violated_claim_stands_out_without_its_colour() -> None:
    page = html(Table("", "", [{"claim": VIOLATED}, {"claim": NOT_REFUTED}]))
    assert page.count("✕") == page.count("class=violated") == 1


def test_columns_of_numbers_are_told_from_words() -> None:
    rows = [
        {
            "loss": "0.71 to 0.82",
            "shares": "– ",
            "levels: values": "0.1: 0.800, 0.2: 0.700, 0.3: 0.600, 0.4: 0.5",
            "sees": "text",
        },
        {"loss": "ceiling", "shares": "< 10⁻⁶", "levels: values": "1: 2", "sees": "3 of them", "none": "–"},
    ]
    heads = dict(Table("", "", rows).html()["heads"])
    assert heads == {"Loss": "number", "Shares": "number", "Levels: values": "words", "Sees": "", "None": "number"}


def test_what_is_marked_up_stays_so_and_nothing_else() -> None:
    page = html(Table("", "", [{"text": Markup("<s>{}</s>").format("<i>")}, {"text": "<i>"}], texts=True))
    assert re.search(r"<s>&lt;i&gt;</s>", page)
    assert "<i>" not in page
