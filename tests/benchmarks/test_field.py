"""The page of published claims is written from its data, and it explains every verdict in the data."""

from __future__ import annotations

import yaml

from benchmarks.field import DATA, OURS, PAGE, VERDICTS, page, said, stored


def test_the_page_is_that_of_its_data() -> None:
    data = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    assert page(data, stored()) == PAGE.read_text(encoding="utf-8")
    assert len(PAGE.read_text(encoding="utf-8").split()) <= 1100


def test_verdicts_are_the_explained_words() -> None:
    rows = yaml.safe_load(DATA.read_text(encoding="utf-8"))["rows"]
    assert all(row["theorem"].startswith((*VERDICTS, "–")) for row in rows)
    published = [row for row in stored().values() if row["form"] == "as published"]
    assert {row["check"] for row in published if row["verdict"] == "violated"} == {
        "custext_published", "truncated_gumbel_published", "rantext_published", "clusant_published", "cape_published",
    }  # fmt: skip
    assert all(row["verdict"] == "not refuted" for row in stored().values() if row["form"] == "here")


def test_every_row_quotes_its_authors_or_says_that_it_does_not() -> None:
    rows = yaml.safe_load(DATA.read_text(encoding="utf-8"))["rows"]
    for row in rows:
        assert all({*each} == {"quote", "place", "date"} for each in row.get("quotes", ()))
        assert row["source"] == OURS or "“" in said(row) or said(row) == "; not quoted"


def test_an_answer_of_authors_is_printed_as_it_is() -> None:
    data = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    data["rows"][0]["answer"] = "We disagree, since…"
    assert f"{data['rows'][0]['name']}: We disagree, since…" in page(data, stored())
