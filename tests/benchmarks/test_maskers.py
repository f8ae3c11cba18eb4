"""The table of maskers, on two maskers of known outcome, and the page that cites it."""

from __future__ import annotations

from functools import cached_property

import polars as pl
import pytest

from benchmarks import maskers
from epsilometer.auditing.linking.loss import chosen_attacks
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.linking import LinkingAttack
from epsilometer.corpora.synthetic import generate
from epsilometer.report.cited import FIGURE, Figures, filled
from tests.support.places import ROOT

PAGE = ROOT / "docs/how-to/maskers.md"


class Few(maskers.Texts):
    """Generated texts of 20 people, linked by words alone."""

    @cached_property
    def messages(self) -> pl.DataFrame:
        texts = generate("queries", 800, 0)["text"].to_list()
        return pl.DataFrame({"text": texts, "author": [str(i % 20) for i in range(800)]})

    @cached_property
    def reviews(self) -> pl.DataFrame:
        return generate("reviews", 60, 0)

    @cached_property
    def attacks(self) -> dict[str, LinkingAttack]:
        return chosen_attacks(["bm25"])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Few:
    for name, value in (("EACH", 2), ("MESSAGES", 30), ("TRIALS", 20), ("SETS", 20), ("KINDS", ("name", "date"))):
        monkeypatch.setattr(maskers, name, value)
    return Few()


def test_identity_leaves_all_and_a_constant_nothing(few: Few) -> None:
    every = {name: maskers.measured(mechanism(name), few) for name in ("identity", "constant")}
    rows = {name: of.row(name) for name, of in every.items()}
    assert [row["left whole"][:5] for row in rows.values()] == ["1.00 ", "0.00 "]
    assert [row["flagged of 30 messages"] for row in rows.values()] == ["0", "30"]
    assert every["constant"].named <= 8, "of 20 guesses among 20 people; P(9 or more) < 1e-6"
    assert every["constant"].linked[1] <= 0.1 <= every["constant"].linked[2]
    assert len(rows["identity"]) == 7
    by_kind = maskers.by(every, "kind", ("name", "date"))
    assert [row["identity"][:5] for row in by_kind] == ["1.00 "] * 2
    page = maskers.page(every)
    assert page.count("\n## ") == 5


def test_a_masker_of_ones_own_gets_its_row(
    few: Few, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(maskers, "Texts", lambda: few)
    maskers.main(["expressions", "kinds=[date]"])
    shown = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert shown["masker"] == "expressions"
    assert 0.3 < float(shown["left whole"][:4]) < 1, "dates in digits are replaced, names are not"


def test_the_page_shows_what_was_measured() -> None:
    page = PAGE.read_text()
    assert filled(page, Figures(ROOT)) == page
    assert len(FIGURE.findall(page)) >= 30
