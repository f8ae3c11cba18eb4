"""The report's section on what rewrites keep: quartiles, distributions, means, leakage, and texts that stay texts."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from epsilometer.core.errors import UserError
from epsilometer.report.page import build
from epsilometer.report.similarity import (
    distributions,
    examples,
    leaks,
    means,
    quartiles,
    written,
)
from epsilometer.utility.intervals import mean_interval
from tests.support.audited import HOSTILE, audit
from tests.support.similarities import COSINES, each, kept


def test_quartiles_are_trials() -> None:
    found = quartiles(each())
    assert found.filter(mechanism=HOSTILE, epsilon=5.0).select("quarter", "trial").rows() == [
        (0.25, 3),
        (0.5, 2),
        (0.75, 4),
    ]
    assert found.filter(mechanism="identity")["trial"].to_list() == [1, 2, 3]  # equal cosines: in their order
    one = quartiles(each().filter(trial=1))
    assert one["trial"].to_list() == [1] * 9
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
    found = means(kept())
    assert found["metrics"] == ["cosine", "perplexity"]
    row = next(row for row in found["rows"] if row["mechanism"] == HOSTILE)
    mean, low, high = mean_interval(COSINES, range(5), 0.01)
    assert row["means"]["cosine"] == pytest.approx((mean, (high - low) / 2))
    assert found["corpus"]


def test_leaks_are_tables_by_data_set() -> None:
    (found,) = leaks(kept().leakage)
    assert (found["kinds"], found["counts"], found["recorded"]) == (["name", "all"], {"name": 20, "all": 20}, 15)
    assert found["sentence"] == (
        f"On queries, of 20 identifiers, over the budgets audited: {HOSTILE} 0.0\N{NO-BREAK SPACE}% to "
        "25.0\N{NO-BREAK SPACE}%, identity 100.0\N{NO-BREAK SPACE}%."
    )
    assert found["rows"][0]["kinds"]["name"]["survived"] == 0
    assert list(leaks(kept().leakage.clear())) == []


def test_examples_carry_all_values() -> None:
    first = examples(kept())[0]
    assert first["budgets"] == 2
    assert first["rows"][0]["values"] == "cosine 0.30, perplexity 10,000"
    assert [written(value) for value in (None, 0.5, -0.25, 12345.6)] == ["–", "0.50", "-0.25", "12,346"]
    assert not math.isnan(first["rows"][0]["epsilon"])


class Text(HTMLParser):
    """Text and element names of a page, scripts left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self._quiet = "", set(), False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._quiet = tag in ("script", "style")
        self.tags.add((tag, "onerror" in dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._quiet = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._quiet else data


def test_the_page_shows_the_section_and_trusts_no_text(tmp_path: Path) -> None:
    build(tmp_path / "audit.html", tmp_path / "figures", audit(kept=kept()))
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    page = Text(html)
    section = page.text[page.text.index("What the rewrites keep") :]
    assert HOSTILE in section
    assert ("img", True) not in page.tags
    assert "(empty)" in section
    assert "cosine, perplexity" in section
    assert "25 % (" in section
    assert "15 of 20 are on the corpus's record" in section
    assert (tmp_path / "figures" / "kept-queries.png").stat().st_size > 1000


def test_texts_of_private_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'letters' must not be shown.*public: true"):
        build(tmp_path / "audit.html", tmp_path / "figures", audit(kept=kept("letters")))
